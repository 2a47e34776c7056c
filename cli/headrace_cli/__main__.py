"""``python -m headrace_cli``."""

from headrace_cli.main import main

main()
