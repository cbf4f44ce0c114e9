"""The owner's keyboard: a client of the local API. Nothing heavy is imported before a command needs
it."""
