"""A login whose module imports too much."""

import pyspark  # noqa: F401 - that is what is wrong
from tests.support.broken_logins import Login


class ImportsSpark(Login):
    """Works wherever Spark is."""
