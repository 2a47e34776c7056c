"""What a release would ship is built once; the tests of a third party's project run where that one is installed."""

from pathlib import Path

import pytest
from tests.support import dist

collect_ignore = ["headrace_acme"]


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """headrace's sdist and the wheel that is built from it."""
    return dist.distributions(tmp_path_factory.mktemp("built"))
