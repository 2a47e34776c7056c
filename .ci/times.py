"""How long each part of ``make test`` took, from what tox and pytest wrote into a folder: its result and each room's times."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Environment of tox → what its tests run on.
SPARKS = {"test": "Spark 3.5", "spark40": "Spark 4.0"}


def parts(environments: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Set-up, lint and tests of each environment, with their seconds."""
    for name, spark in SPARKS.items():
        done = environments.get(name, {})
        commands = [(Path(run["command"][0]).name, run["elapsed"]) for run in done.get("test", [])]
        yield f"set-up for {spark}", sum(run["elapsed"] for run in done.get("setup", []))
        if lint := [seconds for command, seconds in commands if command != "pytest"]:
            yield "lint", sum(lint)
        yield f"tests on {spark}", sum(seconds for command, seconds in commands if command == "pytest")


def main(folder: Path) -> None:
    """Prints them; nothing when tox got no further than its set-up."""
    result = folder / "result.json"
    if not result.is_file():
        return
    print("\nhow long each part took:")
    for part, seconds in parts(json.loads(result.read_text(encoding="utf-8"))["testenvs"]):
        if seconds:
            print(f"{seconds / 60:8.1f} min  {part}")
    for name, spark in SPARKS.items():
        file = folder / f"times-{name}.json"
        if file.is_file():
            print(f"rooms of tests on {spark}, all processes together:")
            rooms = json.loads(file.read_text(encoding="utf-8")).items()
            for room, (seconds, tests) in sorted(rooms, key=lambda item: -item[1][0]):
                print(f"{seconds / 60:8.1f} min  {tests:5} tests  {room}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
