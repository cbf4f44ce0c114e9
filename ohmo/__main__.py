"""``python -m ohmo``."""

from ohmo.cli.main import main

main()
