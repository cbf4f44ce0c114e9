"""Source code is read in a process of its own: parsing holds Python's lock for as long as a file is
long, and what is read can end a parser."""
