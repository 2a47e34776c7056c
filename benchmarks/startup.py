"""Start time of headrace.

    python benchmarks/startup.py [--runs 20]

For the current environment: wall milliseconds of a fresh process, its imported modules, and the large packages among them.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

_LARGE = ("boto3", "click", "pandas", "pydantic", "pyspark", "rich", "yaml")
COMMANDS = {
    "python": ("-c", "pass"),
    "import headrace": ("-c", "import headrace"),
    "import headrace.pipeline": ("-c", "import headrace.pipeline"),
    "headrace --help": (str(Path(sys.executable).with_name("headrace")), "--help"),
}


def milliseconds(command: tuple[str, ...]) -> float:
    """Return the milliseconds of one process."""
    clock = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - clock) * 1000


def list_imports(command: tuple[str, ...]) -> list[str]:
    """Return the modules that a process imports."""
    log = subprocess.run(
        [sys.executable, "-X", "importtime", *command], check=True, capture_output=True, text=True
    ).stderr
    return [line.rpartition("|")[2].strip() for line in log.splitlines()[1:] if line.startswith("import time:")]


def main() -> None:
    """Run every command in turn, round by round, and print the table."""
    cli = argparse.ArgumentParser(description="Start time of headrace.")
    cli.add_argument("--runs", type=int, default=20)
    runs = cli.parse_args().runs
    modules = {name: list_imports(command) for name, command in COMMANDS.items()}
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            times[name].append(milliseconds(command))
    print(f"| {runs} runs | min ms | median ms | max ms | modules | large ones |\n|---|---|---|---|---|---|")
    for name, took in times.items():
        large = ", ".join(sorted({module.partition(".")[0] for module in modules[name]} & {*_LARGE})) or "-"
        figures = " | ".join(f"{figure:.0f}" for figure in (min(took), median(took), max(took)))
        print(f"| {name} | {figures} | {len(modules[name])} | {large} |")


if __name__ == "__main__":
    main()
