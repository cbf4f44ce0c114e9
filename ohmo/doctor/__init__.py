"""Finds what is wrong with one ohmo and its machine, and says the next step."""
