"""``python -m headrace.cli``."""

from headrace.cli.main import main

main()
