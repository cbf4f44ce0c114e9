"""What ohmo costs, printed as ratios measured in one run: the real daemon as a subprocess against
loopback servers. Never part of the tests."""
