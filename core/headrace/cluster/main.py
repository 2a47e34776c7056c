"""Runs the pipeline of a package that ``headrace package`` made; for spark-submit. The arguments are those of ``headrace run``."""

# A package has a copy of this file. It starts without headrace, on a Python that may be too old for it, and says so.
from __future__ import annotations

import atexit
import json
import runpy
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ENVIRONMENT, FILE, ABOUT = "environment", "pipeline.yaml", "headrace_package.json"


def list_places() -> list[Path]:
    """Where the parts of a package may be: beside this file, and where a cluster puts them."""
    return [Path(__file__).absolute().parent, Path.cwd()]


def find_environment() -> Path:
    """Return the folder with headrace and its requirements."""
    for place in list_places():
        if (place / ENVIRONMENT / ABOUT).is_file():
            return place / ENVIRONMENT
        archive = place / f"{ENVIRONMENT}.zip"
        if archive.is_file():
            folder = tempfile.mkdtemp(prefix="headrace-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            with zipfile.ZipFile(archive) as file:
                file.extractall(folder)
            return Path(folder)
    raise complain(
        f"there is no {ENVIRONMENT}.zip", f"give it to spark-submit: --archives {ENVIRONMENT}.zip#{ENVIRONMENT}"
    )


def find_file() -> Path:
    """Return the path of the pipeline file."""
    for place in list_places():
        if (place / FILE).is_file():
            return place / FILE
    raise complain(f"there is no {FILE}", f"give it to spark-submit: --files {FILE}")


def describe_python() -> str:
    """Return implementation and version of this Python, which compiled modules depend on."""
    return f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"


def check(about: dict[str, str]) -> None:
    """Exit on a Python, a platform or a Spark that the package was not made for."""
    python, platform = describe_python(), sysconfig.get_platform()
    if (python, platform) != (about["python"], about["platform"]):
        raise complain(
            f"the package is for {about['python']} on {about['platform']}, and this is {python} on {platform}: {sys.executable}",
            "let PYSPARK_PYTHON name such a Python, or make the package with one like this",
        )
    import pyspark

    if pyspark.__version__.split(".")[:2] != about["spark"].split("."):
        raise complain(
            f"the package is for Spark {about['spark']}, and this is {pyspark.__version__}",
            "make the package where PySpark is of this version",
        )


def complain(what: str, fix: str) -> SystemExit:
    """Says what is wrong as headrace would; what to end the program with."""
    sys.stderr.write(f"error: {what}\n  fix: {fix}\n")
    return SystemExit(2)


def main() -> None:
    """``headrace run`` with the package's pipeline file and this program's arguments."""
    environment = find_environment()
    check(json.loads((environment / ABOUT).read_text(encoding="utf-8")))
    sys.path.insert(0, str(environment))
    sys.argv = ["headrace", "run", str(find_file()), *sys.argv[1:]]
    runpy.run_module("headrace", run_name="__main__")


if __name__ == "__main__":
    main()
