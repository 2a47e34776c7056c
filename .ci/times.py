"""Report of the time of each part of ``make test`` or ``make test-all``, from the result of tox and the times of pytest."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Environment of tox → what its tests run on.
SPARKS = {"test": "Spark 3.5", "test-all": "Spark 3.5", "spark41": "Spark 4.1"}


def parts(environments: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield set-up, lint and tests of each environment with their seconds."""
    for name, spark in SPARKS.items():
        if (done := environments.get(name)) is None:
            continue
        commands = [(Path(run["command"][0]).name, run["elapsed"]) for run in done.get("test", [])]
        yield f"set-up for {spark}", sum(run["elapsed"] for run in done.get("setup", []))
        if lint := [seconds for command, seconds in commands if command != "pytest"]:
            yield "lint", sum(lint)
        yield f"tests on {spark}", sum(seconds for command, seconds in commands if command == "pytest")


def main(folder: Path) -> None:
    """Print the report; nothing when tox ended in its set-up."""
    result = folder / "result.json"
    if not result.is_file():
        return
    print("\ntime of each part:")
    for part, seconds in parts(json.loads(result.read_text(encoding="utf-8"))["testenvs"]):
        if seconds:
            print(f"{seconds / 60:8.1f} min  {part}")
    for name, spark in SPARKS.items():
        file = folder / f"times-{name}.json"
        if file.is_file():
            print(f"folders of tests on {spark}, sum of all processes:")
            folders = json.loads(file.read_text(encoding="utf-8")).items()
            for folder_of_tests, (seconds, tests) in sorted(folders, key=lambda item: -item[1][0]):
                print(f"{seconds / 60:8.1f} min  {tests:5} tests  {folder_of_tests}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
