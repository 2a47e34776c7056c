"""Go programs, built once per machine from the versions in ``go.mod`` and the digests in ``go.sum``."""

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
    """Build ``package``, a tool of the Go module in a folder, and return the program.

    ConfigError if Go is missing or too old, RetriableError if the build fails; both contain the output of Go.
    """
    name = package.rpartition("/")[2]
    parts = [(module / file).read_bytes() for file in ("go.mod", "go.sum")]
    cache = cache_home() / "stack" / "built"
    program = cache / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16] / name
    if not program.is_file():
        with hold_lock(cache, report):
            if not program.is_file():  # another process may have built it
                report(f"{name}: building from source with Go into {cache}, once; this takes a minute or two")
                with tempfile.TemporaryDirectory(prefix="half-", dir=cache) as half:
                    built = _build(module, package, Path(half))
                    program.parent.mkdir(exist_ok=True)
                    built.replace(program)
    return program


def _build(module: Path, package: str, half: Path) -> Path:
    """Build in the temporary folder ``half``, which is removed with all downloads."""
    go, environment = _find_go(), _make_environment(half)
    if (version := _run(module, environment, go, "env", "GOVERSION")).returncode:
        raise ConfigError(
            f"{go} cannot be used: {version.stderr.strip()}", where=package, fix=f"install {_OLDEST} or later"
        )
    # No debug information. The digests of go.sum are checked, and go.sum stays unchanged.
    options = ["-mod=readonly", "-modcacherw", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    program = half / "program"
    done = _run(module, environment, go, "build", *options, "-o", str(program), package)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("go: downloading ")]
        raise RetriableError(
            "the build with Go failed: " + "\n".join(lines[-5:]),
            where=package,
            fix="check the network and Go's settings: `go env GOPROXY` names the source of modules; without a network run "
            "`python -m headrace_stack fetch` on a machine that has one and copy its cache folder here",
        )
    return program


def _find_go() -> str:
    if go := shutil.which("go"):
        return go
    raise ConfigError("go is not on the PATH", fix=f"install {_OLDEST} or later and add it to the PATH")


def _make_environment(half: Path) -> dict[str, str]:
    """Return the environment: settings of the user take precedence; Go's caches are temporary."""
    own = {"GOMODCACHE": str(half / "modules"), "GOCACHE": str(half / "objects")}
    return {**own, **os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def _run(module: Path, environment: Mapping[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, check=False)
