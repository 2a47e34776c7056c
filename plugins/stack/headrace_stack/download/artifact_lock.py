"""Resolution of ``artifacts.toml`` into ``artifacts.lock`` with Maven and npm."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from headrace.errors import ConfigError
from headrace.runtime.jars.artifacts import Artifact, describe, repository
from headrace_stack.download import npm
from headrace_stack.download.artifacts import LOCK

WANTED = LOCK.with_suffix(".toml")
_HEAD = (
    "# Made by `python -m headrace_stack lock` from artifacts.toml: coordinates, SHA-256, size in bytes.",
    "# Do not edit.",
)


def write_lock() -> None:
    """Resolve ``artifacts.toml`` and write ``artifacts.lock``. Takes minutes; ConfigError without Maven."""
    if not shutil.which("mvn"):
        raise ConfigError("mvn is not on the PATH", fix="install Maven")
    lines = [*_HEAD]
    for group, wanted in tomllib.loads(WANTED.read_text(encoding="utf-8")).items():
        with tempfile.TemporaryDirectory(prefix="headrace-lock-") as folder:
            lines += ["", f"[{group}]", *sorted(map(str, _resolve(Path(folder), wanted)))]
    half = LOCK.with_suffix(".half")
    half.write_text("\n".join(lines) + "\n", encoding="utf-8")
    half.replace(LOCK)


def _resolve(folder: Path, wanted: Mapping[str, Sequence[str]]) -> list[Artifact]:
    """Return the artifacts of one group of ``artifacts.toml``; the files are in ``folder``."""
    if roots := wanted.get("with-dependencies"):
        return _with_dependencies(folder, roots, wanted.get("without", []))
    # A Maven run would also download the parent POMs.
    return [npm.describe(name) if name.startswith(npm.GROUP) else describe(name) for name in wanted["alone"]]


def _with_dependencies(folder: Path, roots: Sequence[str], without: Sequence[str]) -> list[Artifact]:
    pom, jars = folder / "pom.xml", folder / "jars"
    pom.write_text(_pom(roots, without), encoding="utf-8")
    # The version is explicit, because the Maven of a Linux distribution may use an older plugin.
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    command = ["mvn", "--batch-mode", "--quiet", "-f", str(pom), goal, "-DincludeScope=runtime"]
    try:
        subprocess.run([*command, "-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={jars}"], check=True)
    except subprocess.CalledProcessError as error:
        raise ConfigError("Maven cannot resolve the artifacts; its output is above", where=str(WANTED)) from error
    return [_to_artifact(jars, file) for file in jars.rglob("*.jar")]


def _to_artifact(jars: Path, file: Path) -> Artifact:
    *group, artifact, version, name = file.relative_to(jars).parts
    classifier = name.removeprefix(f"{artifact}-{version}").removesuffix(".jar")
    kind = f":jar:{classifier[1:]}" if classifier else ""
    coordinate = f"{'.'.join(group)}:{artifact}:{version}{kind}"
    return Artifact(coordinate, hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_size)


def _pom(roots: Sequence[str], without: Sequence[str]) -> str:
    mirror = ""
    if os.environ.get("DEFAULT_ARTIFACT_REPOSITORY"):
        mirror = (
            f"<repositories><repository><id>central</id><url>{escape(repository())}</url></repository></repositories>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>headrace</groupId><artifactId>stack</artifactId><version>1</version><packaging>pom</packaging>"
        f"{mirror}<dependencies>{''.join(_dependency(root, without) for root in roots)}</dependencies></project>"
    )


def _dependency(coordinate: str, without: Sequence[str]) -> str:
    tags = zip(("groupId", "artifactId", "version", "type", "classifier"), coordinate.split(":"), strict=False)
    exclusions = "".join(
        "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>".format(*name.split(":"))
        for name in without
    )
    body = "".join(f"<{tag}>{escape(value)}</{tag}>" for tag, value in tags)
    return f"<dependency>{body}<exclusions>{exclusions}</exclusions></dependency>"
