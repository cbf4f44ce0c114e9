"""One file per part of the house; each exports ``CHECKS``, found by scan."""
