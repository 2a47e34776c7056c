"""Resolution of coordinates to jars: the cache, the lock, Ivy's output and its errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from headrace.errors import ConfigError, RetriableError
from headrace.runtime.jars.resolution import cache_home, resolve_jars

ONE, TWO = "org.example:one:1.0", "org.example:two:2.0"

#: Fake spark-submit that retrieves like Ivy (existing files are kept) and reports like it (spark.jars redacted).
SUBMIT = """#!{python}
import os, sys, time, zipfile
from pathlib import Path
conf = dict(arg.split("=", 1) for flag, arg in zip(sys.argv, sys.argv[1:]) if flag == "--conf")
files = [arg for flag, arg in zip(sys.argv, sys.argv[1:]) if flag == "--properties-file"]
if "FAKE_FILES" in os.environ:
    Path(os.environ["FAKE_FILES"]).write_text("".join(Path(file).read_text() for file in files))
with open(os.environ["FAKE_LOG"], "a") as log:
    print(repr(conf), file=log)
time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
if "FAKE_FAILURE" in os.environ:
    sys.exit(os.environ["FAKE_FAILURE"])
jars = Path(conf["spark.jars.ivy"], "jars")
jars.mkdir(exist_ok=True)
names = [name.split(":") for name in conf["spark.jars.packages"].split(",")]
for group, name, version in names:
    print(f"\\tfound {{group}}#{{name}};{{version}} in maven", file=sys.stderr)
for group, name, version in names:
    jar = jars / f"{{group}}_{{name}}-{{version}}.jar"
    if not jar.exists():
        print(f"downloading https://registry.example/org/{{name}}-{{version}}.jar ...", file=sys.stderr)
        with zipfile.ZipFile(jar, "w") as file:
            file.writestr(zipfile.ZipInfo("content"), name * 1000)
        if "FAKE_CUT" in os.environ:
            os.truncate(jar, 500)
print("Spark config:\\n(spark.jars,*********(redacted))\\nClasspath elements:", file=sys.stderr)
for group, name, version in names:
    print(f"{{jars.as_uri()}}/{{group}}_{{name}}-{{version}}.jar", file=sys.stderr)
print("\\n\\nINFO ShutdownHookManager: Shutdown hook called", file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "a cache"
    monkeypatch.setenv("HEADRACE_CACHE", str(folder))
    return folder


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the log of the fake spark-submit, one line per start. A supported Java is installed too."""
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(SUBMIT.format(python=sys.executable))
    submit.chmod(0o755)
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (tmp_path / "log").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def starts(log: Path) -> int:
    return len(log.read_text().splitlines())


def resolve(*coordinates: str, **options: object) -> list[Path]:
    return resolve_jars(coordinates, spark_version="3.5.7", **options)  # type: ignore[arg-type]


def test_each_downloaded_jar_is_reported(log: Path, cache: Path) -> None:
    reported: list[str] = []
    jars = resolve(TWO, ONE, report=reported.append)
    folder = cache / "ivy" / "jars"
    assert jars == [folder / "org.example_one-1.0.jar", folder / "org.example_two-2.0.jar"]
    assert all(zipfile.is_zipfile(jar) for jar in jars)
    assert reported[:-1] == [
        "looking up one 1.0, two 2.0 and their dependencies",
        f"fetching 2 jars into {folder}, once",
        "  1/2 one-1.0",
        "  2/2 two-2.0",
    ]
    assert reported[-1].startswith("2 jars (0.0 MB) ready after ")


def test_no_coordinates_need_no_lookup(log: Path, cache: Path) -> None:
    assert resolve() == []
    assert not cache.exists()


def test_second_resolution_uses_the_cache(log: Path) -> None:
    first = resolve(ONE, TWO)
    durations = []
    for _ in range(5):
        start = time.perf_counter()
        assert resolve(TWO, ONE, ONE) == first
        durations.append(time.perf_counter() - start)
    assert min(durations) < 0.01
    assert starts(log) == 1


def test_other_coordinates_spark_versions_or_settings_are_resolved_again(log: Path) -> None:
    resolve(ONE)
    resolve(TWO)
    resolve_jars([ONE], spark_version="4.0.0")
    resolve(ONE, conf={"spark.jars.repositories": "https://registry.example/", "spark.ui.enabled": "false"})
    assert starts(log) == 4
    resolve(ONE, conf={"spark.ui.enabled": "true"})
    assert starts(log) == 4


def test_only_repository_settings_reach_ivy(log: Path) -> None:
    resolve(
        ONE, conf={"spark.jars.ivySettings": "/etc/ivy.xml", "spark.jars.excludes": "a:b", "spark.secret": "s3cret"}
    )
    logged = log.read_text()
    assert "'spark.jars.ivySettings': '/etc/ivy.xml'" in logged
    assert "org.slf4j:slf4j-api,a:b" in logged
    assert "s3cret" not in logged


def test_login_of_a_repository_is_not_on_the_command_line(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FILES", str(tmp_path / "files"))
    (tmp_path / "spark-defaults.conf").write_text("spark.jars.ivy.retries 3\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    resolve(ONE, conf={"spark.jars.repositories": "https://me:pass@registry.example/"})
    assert "registry.example" not in log.read_text()
    found = (tmp_path / "files").read_text().replace("\\", "")
    assert "spark.jars.repositories=https://me:pass@registry.example/" in found
    assert "spark.jars.ivy.retries 3" in found


def test_output_of_ivy_in_an_error_has_no_login(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILURE", "https://me:pass@registry.example/ added as a remote repository")
    with pytest.raises(ConfigError) as raised:
        resolve(ONE, conf={"spark.jars.repositories": "https://me:pass@registry.example/"})
    assert "https://me:******@registry.example/" in str(raised.value.__notes__)


def test_settings_of_ivy_are_private(log: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://me:pass@registry.example/")
    resolve(ONE)
    assert (cache / "ivy" / "settings.xml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["delete", "shorten", "garble the record"])
def test_damaged_cache_is_repaired(log: Path, cache: Path, damage: str) -> None:
    jar, other = resolve(ONE, TWO)
    (record,) = (cache / "jars").glob("*.json")
    if damage == "delete":
        jar.unlink()
    elif damage == "shorten":
        os.truncate(jar, 10)
    else:
        record.write_text("{")
    assert resolve(ONE, TWO) == [jar, other]
    assert zipfile.is_zipfile(jar)
    assert starts(log) == 2


def test_partial_jar_of_a_killed_process_is_replaced(log: Path, cache: Path) -> None:
    half = cache / "ivy" / "jars" / "org.example_one-1.0.jar"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PK\x03\x04 and then the power went")
    assert resolve(ONE) == [half]
    assert zipfile.is_zipfile(half)


def test_incomplete_download_is_deleted(log: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUT", "1")
    with pytest.raises(RetriableError, match=ONE):
        resolve(ONE)
    assert not list(cache.rglob("*.jar"))
    monkeypatch.delenv("FAKE_CUT")
    assert zipfile.is_zipfile(resolve(ONE)[0])


def test_copied_cache_serves_a_machine_without_network(log: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(ONE)
    moved = cache.rename(cache.with_name("elsewhere"))
    monkeypatch.setenv("HEADRACE_CACHE", str(moved))
    assert resolve(ONE) == [moved / "ivy" / "jars" / "org.example_one-1.0.jar"]
    assert starts(log) == 1


def test_concurrent_processes_fetch_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SLEEP", "1")
    program = f"from headrace.runtime.jars.resolution import resolve_jars; print(*resolve_jars(['{ONE}'], spark_version='3.5.7', report=print))"
    runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert all(text.rstrip().endswith("org.example_one-1.0.jar") for text in outputs)
    assert sum("waiting for another process that is fetching jars" in text for text in outputs) == 2
    assert starts(log) == 1


def test_ivy_keeps_the_lock_when_its_parent_dies(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SLEEP", "2")
    program = (
        f"from headrace.runtime.jars.resolution import resolve_jars; resolve_jars(['{ONE}'], spark_version='3.5.7')"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as run:
        while not starts(log):
            time.sleep(0.05)
        run.kill()
    reported: list[str] = []
    monkeypatch.setenv("FAKE_SLEEP", "0")
    assert zipfile.is_zipfile(resolve(ONE, report=reported.append)[0])
    assert reported[0] == "waiting for another process that is fetching jars"


UNREACHABLE = """
:: problems summary ::
\tmodule not found: org.example#one;1.0
\t==== maven: tried
\t:: org.example#one;1.0: not found
:::: ERRORS
\tServer access error at url https://registry.example/one-1.0.pom (java.net.SocketTimeoutException: Read timed out)
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.example#one;1.0: not found]
\tat org.apache.spark.deploy.SparkSubmitUtils$.resolveMavenCoordinates(SparkSubmit.scala:1613)
"""
NO_HOST = """
\tHost registry.example not found. url=https://registry.example/one-1.0.pom
\t:: org.example#one;1.0: not found
"""
BAD_GATEWAY = """
\tSERVER ERROR: Bad Gateway url=https://registry.example/one-1.0.pom
\t:: org.example#one;1.0: not found
"""


@pytest.mark.parametrize("output", [UNREACHABLE, NO_HOST, BAD_GATEWAY])
def test_unreachable_repository_is_retriable(log: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.setenv("FAKE_FAILURE", output)
    with pytest.raises(RetriableError) as failure:
        resolve(ONE, TWO)
    assert failure.value.where == ONE
    for fix in ("proxy", "spark.jars.ivySettings", "headrace jars --download", "HEADRACE_CACHE"):
        assert fix in str(failure.value)
    assert output.strip().splitlines()[0].strip() in failure.value.__notes__[0]
    assert "SparkSubmit.scala" not in failure.value.__notes__[0]


def test_unknown_artifact_is_reported_by_name(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILURE", "\t:: org.example#two;2.0: not found\n")
    with pytest.raises(ConfigError, match=f"^{TWO}: no configured Maven repository"):
        resolve(ONE, TWO)


def test_interrupted_download_is_retriable(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILURE", "RuntimeException: [download failed: org.example#one;1.0!one.jar]\n")
    with pytest.raises(RetriableError, match="was interrupted"):
        resolve(ONE)


def test_other_failure_includes_the_output(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILURE", "Unrecognized VM option 'Fast'\n")
    with pytest.raises(ConfigError, match="failed with exit code 1") as failure:
        resolve(ONE)
    assert "Unrecognized VM option" in failure.value.__notes__[0]


@pytest.mark.parametrize("wrong", ["one", "org.example:one", "org.example:one:", "org.example:one:jar:1.0"])
def test_invalid_coordinate_is_rejected(log: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="write group:artifact:version"):
        resolve(ONE, wrong)
    assert starts(log) == 0


def test_read_only_cache_is_reported(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigError, match="not writable: Not a directory") as failure:
        resolve(ONE)
    assert failure.value.where == str(tmp_path / "file" / "cache")
    assert "HEADRACE_CACHE" in str(failure.value.fix)


def test_spark_home_without_spark_is_rejected(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="spark-submit"):
        resolve(ONE)


def test_location_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", "~/jars")
    assert cache_home() == Path.home() / "jars"
    monkeypatch.delenv("HEADRACE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_home() == tmp_path / "headrace"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_home() == Path.home() / ".cache" / "headrace"


def maven_repository(folder: Path) -> Path:
    """Create a repository of two artifacts. ``one`` depends on ``two`` and on slf4j, which Spark includes."""
    slf4j = "<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>1.7.36</version></dependency>"
    two = "<dependency><groupId>org.example</groupId><artifactId>two</artifactId><version>2.0</version></dependency>"
    for name, version, needs in (("one", "1.0", two + slf4j), ("two", "2.0", "")):
        release = folder / "org" / "example" / name / version
        release.mkdir(parents=True)
        release.joinpath(f"{name}-{version}.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
            f"<artifactId>{name}</artifactId><version>{version}</version><dependencies>{needs}</dependencies></project>"
        )
        with zipfile.ZipFile(release / f"{name}-{version}.jar", "w") as jar:
            jar.writestr("content", name)
    return folder


@pytest.mark.nightly
@pytest.mark.spark
class TestRealIvy:
    """Tests of the real spark-submit with a repository on the local disk."""

    @pytest.fixture(autouse=True)
    def repository(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = maven_repository(tmp_path / "repository")
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", folder.as_uri() + "/")
        monkeypatch.delenv("SPARK_HOME", raising=False)
        return folder

    @pytest.fixture
    def version(self) -> str:
        return str(pytest.importorskip("pyspark").__version__)

    def test_dependencies_are_included(self, cache: Path, version: str) -> None:
        reported: list[str] = []
        jars = resolve_jars([ONE], spark_version=version, report=reported.append)
        assert [jar.name for jar in jars] == ["org.example_one-1.0.jar", "org.example_two-2.0.jar"]
        assert reported[1:4] == [f"fetching 2 jars into {cache}/ivy/jars, once", "  1/2 one-1.0", "  2/2 two-2.0"]
        assert json.loads(next((cache / "jars").glob("*.json")).read_text())["jars"].keys() == {
            "ivy/jars/org.example_one-1.0.jar",
            "ivy/jars/org.example_two-2.0.jar",
        }

    def test_jar_with_a_name_that_spark_redacts(self, repository: Path, version: str) -> None:
        folder = repository / "org" / "example" / "token-provider" / "1.0"
        folder.mkdir(parents=True)
        folder.joinpath("token-provider-1.0.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
            "<artifactId>token-provider</artifactId><version>1.0</version></project>"
        )
        zipfile.ZipFile(folder / "token-provider-1.0.jar", "w").close()
        (jar,) = resolve_jars(["org.example:token-provider:1.0"], spark_version=version)
        assert jar.name == "org.example_token-provider-1.0.jar"

    def test_unknown_artifact(self, version: str) -> None:
        with pytest.raises(ConfigError, match=r"^org\.example:three:3\.0: no configured Maven repository"):
            resolve_jars([ONE, "org.example:three:3.0"], spark_version=version)

    def test_repository_that_refuses_connections(self, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9/")
        with pytest.raises(RetriableError) as failure:
            resolve_jars([ONE], spark_version=version)
        assert failure.value.where == ONE
        assert "Connection refused" in failure.value.__notes__[0]


@pytest.mark.spark
def test_real_artifact_from_the_default_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    pyspark = pytest.importorskip("pyspark").__version__
    artifact = "spark-avro_2.12:3.5.7" if pyspark.startswith("3.") else "spark-avro_2.13:4.1.1"
    jars = resolve_jars([f"org.apache.spark:{artifact}"], spark_version=pyspark)
    assert any(jar.name == f"org.apache.spark_{artifact.replace(':', '-')}.jar" for jar in jars)
    assert all(zipfile.is_zipfile(jar) for jar in jars)
