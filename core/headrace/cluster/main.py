"""Program for spark-submit that runs the pipeline of a package; its arguments are those of ``headrace run``."""

# A package has a copy of this file. It starts without headrace, and reports a Python that is too old for headrace.
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
    """Return the folders that may have the parts of a package: this file's folder, and the one of the cluster."""
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
        f"there is no {ENVIRONMENT}.zip", f"pass it to spark-submit: --archives {ENVIRONMENT}.zip#{ENVIRONMENT}"
    )


def find_file() -> Path:
    """Return the path of the pipeline file."""
    for place in list_places():
        if (place / FILE).is_file():
            return place / FILE
    raise complain(f"there is no {FILE}", f"pass it to spark-submit: --files {FILE}")


def describe_python() -> str:
    """Return implementation and version of this Python, which compiled modules depend on."""
    return f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"


def check(about: dict[str, str]) -> None:
    """Exit on a Python, a platform or a Spark that the package was not made for."""
    python, platform = describe_python(), sysconfig.get_platform()
    if (python, platform) != (about["python"], about["platform"]):
        raise complain(
            f"the package is for {about['python']} on {about['platform']}; this is {python} on {platform}: {sys.executable}",
            "set PYSPARK_PYTHON to such a Python, or create the package with a Python like this one",
        )
    import pyspark

    if pyspark.__version__.split(".")[:2] != about["spark"].split("."):
        raise complain(
            f"the package is for Spark {about['spark']}; this is {pyspark.__version__}",
            "create the package with this version of PySpark",
        )


def complain(what: str, fix: str) -> SystemExit:
    """Print an error in headrace's format; return the exception that ends the program."""
    sys.stderr.write(f"error: {what}\n  fix: {fix}\n")
    return SystemExit(2)


def main() -> None:
    """Run ``headrace run`` with the package's pipeline file and this program's arguments."""
    environment = find_environment()
    check(json.loads((environment / ABOUT).read_text(encoding="utf-8")))
    sys.path.insert(0, str(environment))
    sys.argv = ["headrace", "run", str(find_file()), *sys.argv[1:]]
    runpy.run_module("headrace", run_name="__main__")


if __name__ == "__main__":
    main()
