"""What a release would ship is built once; the tests of a third party's project run where that one is installed."""

from pathlib import Path

import pytest
from tests.support.dist import distributions

collect_ignore = ["headrace_acme"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """headrace's sdist and the wheel that is built from it."""
    return distributions(tmp_path_factory.mktemp("built"))
