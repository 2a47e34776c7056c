"""Authentication plugin whose module imports Spark."""

import pyspark  # noqa: F401 - this import is the defect
from tests.support.broken_auth_plugins import Login


class ImportsSpark(Login):
    """Plugin that works only with Spark installed."""
