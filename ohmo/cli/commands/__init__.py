"""One file for each command, named like it, exporting ``COMMAND``; its first line is the help
text."""
