"""What stood in a folder before a turn changed it, and how it comes back."""
