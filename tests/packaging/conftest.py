"""Built distributions and a virtual environment with them.

The tests of the third-party project are not collected here, because they need its distribution.
"""

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
    acme = dist.build_project_wheel(Path(__file__).parent / "headrace_acme", folder)
    # The Spark line of this environment. The extra pins the exact version.
    extra = "spark" if version("pyspark").startswith("3.5.") else "spark4"
    environment = Venv(
        folder / "venv",
        f"headrace[{extra},test] @ {wheel.as_uri()}",
        f"headrace-stack @ {stack.as_uri()}",
        f"headrace-acme @ {acme.as_uri()}",
    )
    printed = dist.run(
        [environment.bin / "python", "-c", "import headrace, pyspark; print(headrace.__file__, pyspark.__version__)"],
        folder,
    )
    location, spark = printed.stdout.split()
    assert Path(location).is_relative_to(folder / "venv")
    assert spark == version("pyspark")
    return environment
