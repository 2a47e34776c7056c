"""Search for personal data in files: ``headrace scan``."""
