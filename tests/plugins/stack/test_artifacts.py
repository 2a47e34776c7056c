"""Artifacts: fetched once, complete, with the locked digest."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.errors import ConfigError, RetriableError
from headrace.runtime.jars.artifacts import Artifact, download
from headrace_stack.download import artifacts, npm
from headrace_stack.download.artifact_lock import WANTED

COORDINATES = ["org.acme:rocket:1.0", "org.acme.parts:fin:2.1:tar.gz:left"]


class Repository:
    """Maven repository with two files that counts requests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.requests = folder, list[str]()
        repository = self

        class Handler(SimpleHTTPRequestHandler):
            def log_request(self, code: object = "-", size: object = "-") -> None:
                repository.requests.append(self.path)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def add(self, coordinate: str, content: bytes) -> Artifact:
        artifact = Artifact(coordinate, hashlib.sha256(content).hexdigest(), len(content))
        file = self.folder / artifact.path
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        return artifact


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository(tmp_path / "repository")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", repository.url)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    thread = threading.Thread(target=repository.server.serve_forever, args=(0.01,))
    thread.start()
    yield repository
    repository.server.shutdown()
    repository.server.server_close()
    thread.join()


def lock(monkeypatch: pytest.MonkeyPatch, *group: Artifact) -> None:
    monkeypatch.setattr(artifacts, "read_lock", lambda: {"rocket": list(group)})


def list_cache(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "lock"]


def test_files_are_fetched_once(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lock(monkeypatch, *(repository.add(name, name.encode()) for name in COORDINATES))
    files = artifacts.fetch("rocket")
    assert [file.read_bytes() for file in files] == [name.encode() for name in COORDINATES]
    assert [str(file.relative_to(tmp_path / "cache/stack")) for file in files] == [
        "org/acme/rocket/1.0/rocket-1.0.jar",
        "org/acme/parts/fin/2.1/fin-2.1-left.tar.gz",
    ]
    assert "rocket: fetching 2 files (0 MB) into " in capfd.readouterr().err
    assert artifacts.fetch("rocket") == files
    assert len(repository.requests) == 2
    assert capfd.readouterr().err == ""


def test_concurrent_processes_fetch_once(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    lock(monkeypatch, repository.add(COORDINATES[0], b"x" * 3_000_000))
    threads = [threading.Thread(target=artifacts.fetch, args=["rocket"]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(repository.requests) == 1


def test_file_with_wrong_digest_is_rejected(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    artifact = repository.add(COORDINATES[0], b"as released")
    (repository.folder / artifact.path).write_bytes(b"as changed")
    lock(monkeypatch, artifact)
    with pytest.raises(
        ConfigError, match=r"rocket-1\.0\.jar: the file has SHA-256 \w+, and artifacts\.lock requires"
    ) as raised:
        artifacts.fetch("rocket")
    assert artifact.sha256 in str(raised.value)
    assert list_cache(tmp_path) == []


def test_download_stops_after_the_locked_size(repository: Repository, tmp_path: Path) -> None:
    artifact = repository.add(COORDINATES[0], b"x" * 3_000_000)
    file = tmp_path / "half"
    digest = download(f"{repository.url}/{artifact.path}", file, 1_000_000)
    assert file.stat().st_size == 1_000_001
    assert digest != artifact.sha256


def test_missing_file_is_named(repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, Artifact("org.acme:rocket:9.9", "0" * 64, 1))
    with pytest.raises(ConfigError, match=r"/org/acme/rocket/9\.9/rocket-9\.9\.jar: the repository returns 404"):
        artifacts.fetch("rocket")
    assert list_cache(tmp_path) == []


def test_network_error_states_a_fix(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    lock(monkeypatch, repository.add(COORDINATES[0], b""))
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:1")
    with pytest.raises(RetriableError, match="Connection refused") as raised:
        artifacts.fetch("rocket")
    assert "DEFAULT_ARTIFACT_REPOSITORY" in str(raised.value.fix)
    assert "python -m headrace_stack fetch" in str(raised.value.fix)


def test_read_only_cache_is_reported(repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, repository.add(COORDINATES[0], b""))
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=r"the cache is not writable: "):
        artifacts.fetch("rocket")


@pytest.mark.parametrize("kind", ["tar.gz", "txz in a jar"])
def test_archive_is_unpacked_once(repository: Repository, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz" if kind == "tar.gz" else "w:xz") as tar:
        member = tarfile.TarInfo("bin/launch")
        member.size, member.mode = 4, 0o755
        tar.addfile(member, io.BytesIO(b"3210"))
    if kind != "tar.gz":
        jar = io.BytesIO()
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("rocket.txz", content.getvalue())
        content = jar
    lock(monkeypatch, repository.add(COORDINATES[0], content.getvalue()))
    folder = artifacts.unpack("rocket")
    assert (folder / "bin/launch").read_bytes() == b"3210"
    assert os.access(folder / "bin/launch", os.X_OK)
    assert artifacts.unpack("rocket") == folder
    assert len(repository.requests) == 1


def publish(repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Artifact:
    """Publish a package in an npm registry that the environment names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        member = tarfile.TarInfo("package/package.json")
        text = json.dumps({"name": "rocket", "version": "1.0.0"}).encode()
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    archive = content.getvalue()
    (repository.folder / "rocket.tgz").write_bytes(archive)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    dist = {"tarball": f"{repository.url}/rocket.tgz", "integrity": integrity}
    versions = {"1.0.0": {"name": "rocket", "version": "1.0.0", "dist": dist}}
    (repository.folder / "rocket").write_text(
        json.dumps({"name": "rocket", "dist-tags": {"latest": "1.0.0"}, "versions": versions})
    )
    monkeypatch.setenv("npm_config_registry", repository.url)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    return Artifact("npm:rocket:1.0.0:tgz", hashlib.sha256(archive).hexdigest(), len(archive))


@pytest.mark.dist
def test_packages_come_from_the_configured_npm_registry(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.folder.mkdir()
    lock(monkeypatch, publish(repository, monkeypatch, tmp_path))
    folder = artifacts.unpack("rocket")
    assert json.loads((folder / "package/package.json").read_text())["name"] == "rocket"
    requests = len(repository.requests)
    assert artifacts.unpack("rocket") == folder
    assert len(repository.requests) == requests


@pytest.mark.dist
def test_package_with_wrong_digest_is_rejected(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.folder.mkdir()
    publish(repository, monkeypatch, tmp_path)
    lock(monkeypatch, Artifact("npm:rocket:1.0.0:tgz", "0" * 64, 1))
    with pytest.raises(
        ConfigError, match=r"npm:rocket:1\.0\.0:tgz: SHA-256 mismatch: the file has \w+, and artifacts\.lock has 000"
    ):
        artifacts.fetch("rocket")
    assert list_cache(tmp_path) == []
    lock(monkeypatch, Artifact("npm:rocket:9.9.9:tgz", "0" * 64, 1))
    with pytest.raises(RetriableError, match=r"npm cannot fetch the package: npm error .*ETARGET"):
        artifacts.fetch("rocket")


def test_missing_node_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"node is not on the PATH\s+fix: install Node"):
        npm.find_program("node")


def test_unsupported_machine_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    with pytest.raises(ConfigError, match="postgres does not support Linux on s390x"):
        artifacts.unpack_native("postgres")


def test_lock_contains_the_roots_of_every_group() -> None:
    locked = artifacts.read_lock()
    roots_by_group = tomllib.loads(WANTED.read_text(encoding="utf-8"))
    assert locked.keys() == roots_by_group.keys()
    for group, roots in roots_by_group.items():
        coordinates = {artifact.coordinate for artifact in locked[group]}
        assert {*roots.get("with-dependencies", ()), *roots.get("alone", ())} <= coordinates
        assert not {name.rsplit(":", 1)[0] for name in coordinates} & set(roots.get("without", ()))
        assert all(len(artifact.sha256) == 64 and artifact.size for artifact in locked[group])
