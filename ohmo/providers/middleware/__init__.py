"""The chain around a model call: each piece takes a Call and gives a Call."""
