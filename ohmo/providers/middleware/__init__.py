"""The chain around a model call, a file per link. Its order is the key ``chain``."""
