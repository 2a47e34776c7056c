"""Programs in Go, built once per machine from the versions and digests of a ``go.mod`` and its ``go.sum``."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.errors import ConfigError, RetriableError
from headrace.runtime.jars.artifacts import hold_lock
from headrace.runtime.jars.resolution import cache_home

_OLDEST = "Go 1.25"


def build(module: Path, package: str, report: Callable[[str], None]) -> Path:
    """The program that is ``package``, a tool of the module in the folder ``module``.

    ConfigError where Go is missing or too old, RetriableError where it cannot get what it builds from; both in Go's own words.
    """
    name = package.rpartition("/")[2]
    parts = [(module / file).read_bytes() for file in ("go.mod", "go.sum")]
    cache = cache_home() / "stack" / "built"
    program = cache / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16] / name
    if not program.is_file():
        with hold_lock(cache, report):
            if not program.is_file():  # another process may have built it
                report(f"{name}: building it from its sources by Go into {cache}, once; it takes a minute or two")
                with tempfile.TemporaryDirectory(prefix="half-", dir=cache) as half:
                    built = _build(module, package, Path(half))
                    program.parent.mkdir(exist_ok=True)
                    built.replace(program)
    return program


def _build(module: Path, package: str, half: Path) -> Path:
    """Build in the folder ``half``, which is removed with all that Go fetched."""
    go, environment = _find_go(), _make_environment(half)
    if (version := _run(module, environment, go, "env", "GOVERSION")).returncode:
        raise ConfigError(
            f"{go} does not do: {version.stderr.strip()}", where=package, fix=f"install {_OLDEST} or a later one"
        )
    # Without what only debuggers read; the digests of go.sum are compared, and nothing is added to it.
    options = ["-mod=readonly", "-modcacherw", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    program = half / "program"
    done = _run(module, environment, go, "build", *options, "-o", str(program), package)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not line.startswith("go: downloading ")]
        raise RetriableError(
            "Go cannot build it: " + "\n".join(said[-5:]),
            where=package,
            fix="check the network, and what Go is told: `go env GOPROXY` names where it fetches modules; without a network run "
            "`python -m headrace_stack fetch` on a machine that has one and copy its cache folder here",
        )
    return program


def _find_go() -> str:
    if go := shutil.which("go"):
        return go
    raise ConfigError("there is no go on the PATH", fix=f"install {_OLDEST} or a later one, and put it on the PATH")


def _make_environment(half: Path) -> dict[str, str]:
    """What a person set stays; Go's own caches are of no use once the program is there."""
    own = {"GOMODCACHE": str(half / "modules"), "GOCACHE": str(half / "objects")}
    return {**own, **os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def _run(module: Path, environment: Mapping[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, check=False)
