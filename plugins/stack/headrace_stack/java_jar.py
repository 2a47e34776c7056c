"""Jars that are committed next to their Java sources and built by ``python -m headrace_stack compile``."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError, FatalError
from headrace_stack.download import artifacts

#: Main attribute of the manifest: the digest of the sources, in Base64 as in a signed jar.
DIGEST = "Sources-SHA-256"
_MANIFEST = "META-INF/MANIFEST.MF"
#: Java release of the class files: the oldest that the servers run on.
_RELEASE = "17"


@dataclass(frozen=True)
class JavaJar:
    """Jar ``path`` with the classes of the sources in its folder. ``group``: artifacts on the class path of the compiler."""

    path: Path
    group: str

    @property
    def sources(self) -> Sequence[Path]:
        """Java files in the folder of the jar."""
        return sorted(self.path.parent.glob("*.java"))

    def compile(self, target: Path | None = None) -> None:
        """Compile the sources and write the jar. ConfigError without a JDK, FatalError with the output of javac."""
        javac = shutil.which("javac")
        if not javac:
            raise ConfigError("javac is not on the PATH", fix="install a JDK, version 17 or later")
        with tempfile.TemporaryDirectory(prefix="headrace-javac-") as folder:
            jars = ":".join(map(str, artifacts.fetch(self.group)))
            options = ["--release", _RELEASE, "-g:source,lines", "-proc:none", "-cp", jars, "-d", folder]
            command = [javac, *options, *map(str, self.sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise FatalError(f"javac failed:\n{done.stderr}{done.stdout}", where=str(self.path.parent))
            classes = {file.relative_to(folder).as_posix(): file.read_bytes() for file in Path(folder).rglob("*.class")}
        manifest = f"Manifest-Version: 1.0\r\n{DIGEST}: {self.digest_sources()}\r\n\r\n"
        _write(target or self.path, {_MANIFEST: manifest.encode(), **dict(sorted(classes.items()))})

    def digest_sources(self) -> str:
        """Return the SHA-256 of the names and contents of the sources."""
        digest = hashlib.sha256()
        for source in self.sources:
            content = source.read_bytes()
            digest.update(f"{source.name}\0{len(content)}\0".encode())
            digest.update(content)
        return base64.b64encode(digest.digest()).decode()


def read_digest(jar: Path) -> str | None:
    """Return the digest of the sources that a jar was built from; None when its manifest has none."""
    with zipfile.ZipFile(jar) as archive:
        lines = archive.read(_MANIFEST).decode().splitlines()
    return dict(line.split(": ", 1) for line in lines if line).get(DIGEST)


def _write(jar: Path, entries: Mapping[str, bytes]) -> None:
    """Write entries with a fixed timestamp and mode, so that equal class files make an equal jar."""
    half = jar.with_suffix(".half")
    with zipfile.ZipFile(half, "w") as archive:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name)  # its default timestamp is 1980-01-01
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, content)
    half.replace(jar)
