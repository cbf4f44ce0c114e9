"""Lives of threads: each has one mind, one mailbox and one turn at a time."""
