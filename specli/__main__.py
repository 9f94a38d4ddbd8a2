"""``python -m specli``."""

from specli.cli.main import main

main()
