"""Locked jars: downloads by Python, including over TLS, and digest checks."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.mirrors import Mirror, serve

from headrace.errors import ConfigError
from headrace.registry.plugin_registry import registry
from headrace.registry.registration import KINDS
from headrace.runtime.jars import ivy
from headrace.runtime.jars.artifacts import Artifact
from headrace.runtime.jars.jar_choice import choose_jars
from headrace.runtime.jars.jar_locks import Locks, find_locked, read_locks
from headrace.runtime.jars.resolution import describe_jars, find_cached_jars, resolve_jars
from headrace.runtime.java.trust_store import write_trust_store
from headrace.sdk.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE, TWO = "org.example:one:1.0", "org.example:two:2.0"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mirror") / "keys"


@pytest.fixture
def mirror(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    with serve(tmp_path / "repository", keys) as server:
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", server.url)
        monkeypatch.setattr(ivy, "fetch", lambda *_, **__: pytest.fail("Ivy was started"))
        yield server


def release(mirror: Mirror, coordinate: str, content: bytes = b"as released") -> Artifact:
    artifact = Artifact(coordinate, hashlib.sha256(content).hexdigest(), len(content))
    file = mirror.folder / artifact.path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return artifact


def locks(mirror: Mirror) -> Locks:
    two = release(mirror, TWO)
    return {ONE: [release(mirror, ONE), two], TWO: [two]}


def resolve(locks: Locks, *coordinates: str) -> list[Path]:
    return resolve_jars(coordinates, spark_version="3.5.7", locks=locks)


def test_mirror_with_its_own_certificate_authority(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = locks(mirror)
    with pytest.raises(ConfigError, match="certificate is not trusted") as refused:
        resolve(known, ONE)
    assert "SSL_CERT_FILE" in str(refused.value.fix)
    assert mirror.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(mirror.certificate))
    assert find_cached_jars([ONE], spark_version="3.5.7", locks=known) is None
    jars = resolve(known, ONE, TWO)
    assert [str(jar.relative_to(cache / "maven")) for jar in jars] == [
        "org/example/one/1.0/one-1.0.jar",
        "org/example/two/2.0/two-2.0.jar",
    ]
    assert resolve(known, ONE, TWO) == find_cached_jars([ONE, TWO], spark_version="3.5.7", locks=known) == jars
    assert len(mirror.asked) == 2


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_each_variable_for_certificates_is_used(mirror: Mirror, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    path = mirror.certificate.parent if variable == "SSL_CERT_DIR" else mirror.certificate
    monkeypatch.setenv(variable, str(path))
    assert len(resolve(locks(mirror), ONE)) == 2


def test_changed_byte_is_rejected_in_a_download_and_on_the_disk(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(mirror.certificate))
    known = locks(mirror)
    served = mirror.folder / known[TWO][0].path
    served.write_bytes(b"as rEleased")
    with pytest.raises(
        ConfigError, match=r"two-2\.0\.jar: the file has SHA-256 \w+, and its plugin's jars\.lock requires"
    ):
        resolve(known, TWO)
    assert not list(cache.rglob("*.jar"))
    served.write_bytes(b"as released")
    (jar,) = resolve(known, TWO)
    jar.write_bytes(b"as rEleased")
    with pytest.raises(ConfigError, match=r"two-2\.0\.jar: the jar has changed") as refused:
        resolve(known, TWO)
    assert "delete the jar" in str(refused.value.fix)
    jar.unlink()
    assert resolve(known, TWO) == [jar]


def test_jar_without_a_lock_must_match_its_first_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = ["first"]

    def fetch(coordinates: list[str], folder: Path, **_: object) -> list[Path]:
        jar = folder / "jars" / "org.example_one-1.0.jar"
        jar.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(jar, "w") as file:
            file.writestr("content", content[0])
        return [jar]

    monkeypatch.setattr(ivy, "fetch", fetch)
    (jar,) = resolve({}, ONE)
    jar.write_bytes(jar.read_bytes().replace(b"first", b"fIrst"))
    with pytest.raises(ConfigError, match="the jar has changed"):
        resolve({}, ONE)
    jar.unlink()
    content[0] = "other"
    with pytest.raises(ConfigError, match="file has changed since the first download") as refused:
        resolve({}, ONE)
    (record,) = (cache / "jars").glob("*.json")
    assert str(record) in str(refused.value.fix)
    record.unlink()
    assert resolve({}, ONE) == [jar]


def test_record_without_digests_is_valid(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(coordinates: list[str], folder: Path, **_: object) -> list[Path]:
        jar = folder / "one.jar"
        jar.parent.mkdir(parents=True)
        jar.write_bytes(b"jar")
        return [jar]

    monkeypatch.setattr(ivy, "fetch", fetch)
    (jar,) = resolve({}, ONE)
    (record,) = (cache / "jars").glob("*.json")
    record.write_text(json.dumps({"jars": {"ivy/one.jar": 3}}))
    monkeypatch.setattr(ivy, "fetch", lambda *_, **__: pytest.fail("Ivy was started"))
    assert resolve({}, ONE) == [jar]


def test_locks_with_two_versions_of_a_jar_are_not_used() -> None:
    older, newer = Artifact("org.example:two:1.0", "a", 1), Artifact(TWO, "b", 1)
    assert find_locked([ONE, TWO], {ONE: [older], TWO: [newer]}) is None
    assert find_locked([ONE], {ONE: [older], TWO: [newer]}) == [older]
    assert find_locked([ONE], {}) is None


SINGLE = "org.example:one:1.0:jar:all"


def test_jar_with_a_classifier_comes_from_a_lock_and_others_from_ivy(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(mirror.certificate))
    known = {SINGLE: [release(mirror, SINGLE)]}
    assert describe_jars(SINGLE, spark_version="3.5.7", report=print) == known[SINGLE]
    ivy_jar = cache / "ivy.jar"

    def fetch(coordinates: list[str], *_: object, **__: object) -> list[Path]:
        assert coordinates == [TWO]
        ivy_jar.write_bytes(b"by Ivy")
        return [ivy_jar]

    monkeypatch.setattr(ivy, "fetch", fetch)
    settings = {"spark.jars.repositories": "https://repo.example.com"}
    wanted = {"spark_version": "3.5.7", "conf": settings, "locks": known}
    assert find_cached_jars([SINGLE, TWO], **wanted) is None  # type: ignore[arg-type]
    jars = resolve_jars([SINGLE, TWO], **wanted)  # type: ignore[arg-type]
    assert jars == [cache / "maven/org/example/one/1.0/one-1.0-all.jar", ivy_jar]
    assert find_cached_jars([SINGLE, TWO], **wanted) == jars  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"{SINGLE}: no lock contains this single jar"):
        resolve({}, SINGLE)
    with pytest.raises(ConfigError, match="invalid Maven coordinates"):
        resolve({}, "org.example:one:1.0:all")


def test_every_jar_of_a_built_in_plugin_is_locked() -> None:
    plugins = [kind for name in KINDS for _, kind in registry().all(name) if isinstance(kind, type)]
    built_in = [p for p in plugins if issubclass(p, Plugin) and p.__module__.startswith(("headrace_s", "headrace_aws"))]
    known = read_locks(built_in)
    versions = {key for plugin in built_in for key in plugin.jars}
    assert versions >= {"3.5", "3.5.9", "4.0", "4.1", "4.1.1", "4.2.0"}
    for version in versions | {"3.5.5", "3.5.6", "4.0.5", "4.1.4"}:
        needed = [c for plugin in built_in for c in choose_jars(plugin, version)]
        assert find_locked(needed, known), f"Spark {version}: headrace jars --lock"


def test_single_jar_is_locked_without_its_dependencies(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(mirror.certificate))
    single, released = f"{ONE}:jar", release(mirror, ONE)
    assert describe_jars(single, spark_version="3.5.7", report=print) == [released]
    known = {single: [released]}
    assert resolve_jars([single], spark_version="3.5.7", locks=known) == [
        cache / "maven/org/example/one/1.0/one-1.0.jar"
    ]
    newer = Artifact("org.example:one:2.0", "b", 1)
    assert find_locked([single, TWO], {**known, TWO: [newer]}) is None


def test_plugin_without_a_package_has_no_lock() -> None:
    class Loose(Plugin):
        name = "loose"
        api_version = 1

    Loose.__module__ = "__main__"
    assert read_locks([Loose]) == {}


@pytest.mark.spark
@pytest.mark.one_spark
def test_java_reads_the_trust_store(
    spark: SparkSession, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(mirror.certificate))
    file = write_trust_store(tmp_path / "a folder" / "trusted.jks")
    assert write_trust_store(tmp_path / "a folder" / "trusted.jks") == file
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    store = jvm.java.security.KeyStore.getInstance("JKS")
    password = gateway.new_array(jvm.char, 8)
    for i, letter in enumerate("changeit"):
        password[i] = letter
    store.load(jvm.java.io.FileInputStream(str(file)), password)
    assert store.size() == 1
    assert store.getCertificate("ca0").getSubjectX500Principal().getName() == "CN=localhost"
