"""The daemon: run until it is stopped, or for one command."""
