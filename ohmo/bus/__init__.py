"""What arrives, and what a turn says while it runs."""
