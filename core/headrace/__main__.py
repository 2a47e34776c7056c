"""``python -m headrace``: the same program as ``headrace``."""

from headrace.cli.main import main

main()
