"""Environment of the Python processes of executors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Environment:
    """Environment variables of this process and of the Python processes of executors.

    The JVM passes its initial environment to executors. AWS variables of the user who runs the tests are removed.
    """

    def __init__(self, spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
        self._executors, self._patch = spark.sparkContext.environment, patch
        for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)

    def set(self, variables: Mapping[str, str], *, driver: bool = True) -> None:
        for name, value in variables.items():
            if driver:
                self._patch.setenv(name, value)
            self._patch.setitem(self._executors, name, value)
