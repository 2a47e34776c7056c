"""What a release would ship is built once; the tests of a third party's project run where that one is installed."""

from importlib.metadata import version
from pathlib import Path

import pytest
from tests.support import dist
from tests.support.venv import Venv

collect_ignore = ["headrace_acme"]


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dist.Built:
    return dist.distributions(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def venv(distributions: dist.Built, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    folder = tmp_path_factory.mktemp("dist")
    wheel, stack = distributions.wheel, distributions.stack
    acme = dist.wheel_of(Path(__file__).parent / "headrace_acme", folder)
    # The same line as here; the exact version is the extra's.
    extra = "spark" if version("pyspark").startswith("3.5.") else "spark4"
    made = Venv(
        folder / "venv",
        f"headrace[{extra},test] @ {wheel.as_uri()}",
        f"headrace-stack @ {stack.as_uri()}",
        f"headrace-acme @ {acme.as_uri()}",
    )
    found = dist.run(
        [made.bin / "python", "-c", "import headrace, pyspark; print(headrace.__file__, pyspark.__version__)"], folder
    )
    place, spark = found.stdout.split()
    assert Path(place).is_relative_to(folder / "venv")
    assert spark == version("pyspark")
    return made
