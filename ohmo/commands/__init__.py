"""The slash commands: one file each, which exports one ``COMMAND``."""
