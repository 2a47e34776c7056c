"""Java sources to classes, once per machine: by Eclipse's compiler, for a Java that runs need not have one."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import FatalError
from headrace.runtime.jars.artifacts import hold_lock
from headrace.runtime.jars.resolution import cache_home
from headrace_stack.download import artifacts
from headrace_stack.servers import jvm_command

_MAIN = "org.eclipse.jdt.internal.compiler.batch.Main"


def compile_sources(sources: Sequence[Path], classpath: Sequence[Path]) -> Path:
    """The folder with the classes of ``sources``, which use those of ``classpath``. FatalError in the compiler's words."""
    (compiler,) = artifacts.fetch(artifacts.COMPILER)
    # The names in a class path have versions.
    parts = [*(source.read_bytes() for source in sources), *(jar.name.encode() for jar in (*classpath, compiler))]
    cache = cache_home() / "stack" / "compiled"
    folder = cache / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    if not folder.is_dir():
        with hold_lock(cache):
            if not folder.is_dir():  # another process may have compiled them
                half = Path(tempfile.mkdtemp(prefix="half-", dir=cache))
                _compile(sources, [*classpath], compiler, half)
                half.rename(folder)
    return folder


def _compile(sources: Sequence[Path], classpath: Sequence[Path], compiler: Path, folder: Path) -> None:
    options = ["-17", "-nowarn", "-proc:none", "-cp", ":".join(map(str, classpath)), "-d", str(folder)]
    command = jvm_command.command(_MAIN, *options, *map(str, sources), classpath=[compiler], heap="256m")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FatalError(f"it cannot be compiled:\n{done.stderr}{done.stdout}", where=str(sources[0].parent))
