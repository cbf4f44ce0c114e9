"""ohmo as part of the machine: what systemd, launchd and containers need from a daemon, and a
supervisor of our own where there is none of them."""
