"""The human's slash doors: one file a command, each exporting one ``COMMAND``."""
