"""Fetching pages of the public web without reaching anything else."""
