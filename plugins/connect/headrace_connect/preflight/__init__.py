"""Checks of the source database for settings that lose changes: ``headrace check --source``."""
