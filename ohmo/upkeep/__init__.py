"""What a daemon does for itself while it lives: retention, backups, watches."""
