"""Command ``headrace package``: the files that it creates, and the pipelines that it rejects."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.core.conftest import Headrace

from headrace import ConfigError
from headrace.cli.main import cli
from headrace.cluster import main as entry, package
from headrace.runtime.java.jvm import JAVA_OPTIONS
from headrace.sdk.plugin import Plugin
from headrace.secret_values import Secret

CANARY = "canary-7f3a91c2-pepper"
QUOTED = "a 'quoted' $HOME label"
CONFIG: dict[str, Any] = {
    "name": "shop",
    "source": {"files": {"path": "/bronze", "format": "json"}},
    "transforms": [{"unwrap": {}}, {"mask": {"columns": {"name": {"sha256": {"salt": "${env:SALT}"}}}}}],
    "sink": {"console": {}},
    "checkpoint": "/checkpoint",
}
SETTINGS = {
    "spark.master": "local[2]",
    "spark.jars": "s3://lake/own.jar",
    "spark.executor.memory": "2g",
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "-Xss4m",
    "spark.yarn.tags": QUOTED,
    "spark.hadoop.fs.store.key": "${env:SALT}",
    "spark.kubernetes.driver.secretKeyRef.SALT": "shop:salt",
}


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Result]]:
    """Return a package with two jars, and its output."""
    folder = tmp_path_factory.mktemp("with space")
    jars = [folder / "one.jar", folder / "two.jar"]
    for jar in jars:
        jar.write_text(jar.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "resolve_jars", lambda *_, **__: jars)
        patch.setenv("SALT", CANARY)
        file = write(folder, spark=SETTINGS)
        yield folder / "out", CliRunner().invoke(cli, ["package", str(file), "--output", str(folder / "out")])


def write(folder: Path, **overrides: Any) -> Path:
    file = folder / "shop.yaml"
    file.write_text("# ours\n" + yaml.safe_dump({**CONFIG, **overrides}), encoding="utf-8")
    return file


def submit(folder: Path, tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    """Return the arguments that are passed to spark-submit."""
    program = tmp_path / "spark-submit"
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    command: list[str | Path] = [folder / package.SUBMIT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": path, **variables})
    words: list[str] = json.loads(done.stdout)
    return words


def settings(arguments: list[str]) -> dict[str, str]:
    """Return the settings that are passed with --conf."""
    passed = [arguments[at + 1] for at, word in enumerate(arguments) if word == "--conf"]
    return {key: value for key, _, value in (setting.partition("=") for setting in passed)}


def test_output_lists_the_created_files(packaged: tuple[Path, Result]) -> None:
    folder, result = packaged
    assert result.exit_code == 0, result.output
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"cpython {version}, {sysconfig.get_platform()}" in result.output
    assert re.search(r"environment\.zip  [\d.]+ MB: .*headrace 0\.", result.output)
    assert "jars/  2 jars, 0.0 kB" in result.output
    assert f"MASTER=spark://HOST:7077 '{folder}/submit.sh' --available-now" in result.output
    assert sorted(path.name for path in folder.iterdir()) == [
        *("environment.zip", "jars", "main.py", "pipeline.yaml", "submit.sh")
    ]


def test_headrace_runs_from_the_archive(packaged: tuple[Path, Result], tmp_path: Path) -> None:
    """The archive contains the entry points of the plugins."""
    folder, _ = packaged
    with zipfile.ZipFile(folder / "environment.zip") as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "]
    command[-1] += "sys.argv = ['headrace', 'plugins', '--json']; import runpy; runpy.run_module('headrace')"
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    listed = {item["name"]: item["distribution"] for item in json.loads(done.stdout)}
    assert listed["rename"].startswith("headrace 0.")


def test_package_contains_no_secret(packaged: tuple[Path, Result]) -> None:
    folder, _ = packaged
    canary = CANARY.encode()
    assert not [path for path in folder.rglob("*") if path.is_file() and canary in path.read_bytes()]
    with zipfile.ZipFile(folder / "environment.zip") as archive:
        assert not [name for name in archive.namelist() if canary in archive.read(name)]
    assert "${env:SALT}" in (folder / "pipeline.yaml").read_text()


def test_pipeline_file_is_packaged_unchanged(packaged: tuple[Path, Result]) -> None:
    folder, _ = packaged
    assert (folder / "pipeline.yaml").read_bytes() == (folder.parent / "shop.yaml").read_bytes()


def test_submit_command_has_the_expected_arguments(packaged: tuple[Path, Result], tmp_path: Path) -> None:
    folder, _ = packaged
    arguments = submit(folder, tmp_path, "--trigger", "10 seconds", MASTER="yarn", DEPLOY_MODE="cluster")
    assert arguments[:4] == ["--master", "yarn", "--deploy-mode", "cluster"]
    assert arguments[-3:] == [str(folder / "main.py"), "--trigger", "10 seconds"]
    passed = dict(pairwise(arguments))
    assert passed["--archives"] == f"{folder}/environment.zip#environment"
    assert passed["--files"] == f"{folder}/pipeline.yaml"
    assert passed["--jars"] == f"{folder}/jars/one.jar,{folder}/jars/two.jar,s3://lake/own.jar"
    assert settings(arguments) == {
        "spark.executor.memory": "2g",
        "spark.driver.memory": "3g",
        "spark.yarn.tags": QUOTED,
        "spark.kubernetes.driver.secretKeyRef.SALT": "shop:salt",
        "spark.driver.extraJavaOptions": "-Xss4m -XX:-DontCompileHugeMethods",
        "spark.executorEnv.PYTHONPATH": "environment",
    }


def test_submit_command_uses_the_address_of_a_copy(packaged: tuple[Path, Result], tmp_path: Path) -> None:
    arguments = submit(packaged[0], tmp_path, MASTER="yarn", AT="s3://lake/shop")
    assert arguments[-1] == "s3://lake/shop/main.py"
    assert dict(pairwise(arguments))["--archives"] == "s3://lake/shop/environment.zip#environment"


def test_submit_command_requires_a_master(packaged: tuple[Path, Result], tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        submit(packaged[0], tmp_path)
    assert "MASTER: is the cluster: spark://HOST:7077, yarn" in raised.value.stderr


def test_address_without_a_scheme_is_rejected(headrace: Headrace, tmp_path: Path) -> None:
    result = headrace("package", str(write(tmp_path)), "--output", str(tmp_path / "out"), "--at", "bucket/shop")
    assert (result.exit_code, "add the scheme" in result.output) == (2, True), result.output


def test_missing_file_is_reported(headrace: Headrace, tmp_path: Path) -> None:
    result = headrace("package", str(tmp_path / "none.yaml"))
    assert (result.exit_code, "there is no file" in result.output) == (2, True)


def test_folder_with_other_files_is_not_changed(headrace: Headrace, tmp_path: Path) -> None:
    file = write(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("mine")
    result = headrace("package", str(file), "--output", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "exists and is not an empty folder" in result.output
    assert "--output DIR" in result.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_empty_folder_is_filled_without_temporary_files(headrace: Headrace, tmp_path: Path) -> None:
    file = write(tmp_path)
    (tmp_path / "out").mkdir()
    assert headrace("package", str(file), "--output", str(tmp_path / "out")).exit_code == 0
    assert (tmp_path / "out/submit.sh").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "shop.yaml"]


def test_address_adds_parameters_for_services_without_spark_submit(headrace: Headrace, tmp_path: Path) -> None:
    """tests/packaging/test_clusters.py compares the parameters of EMR Serverless and the Spark operator with the script."""
    result = headrace("package", str(write(tmp_path)), "--output", str(tmp_path / "out"), "--at", "s3://lake/shop/")
    assert "pipeline.yaml, main.py, submit.sh, emr-serverless.json, spark-application.yaml\n" in result.output
    assert f"copy it: aws s3 cp --recursive {tmp_path}/out s3://lake/shop\n" in result.output
    assert f"  kubectl apply -f {tmp_path}/out/spark-application.yaml\n" in result.output
    assert f"--cli-input-json file://{tmp_path}/out/emr-serverless.json\n" in result.output
    assert f"  MASTER=yarn DEPLOY_MODE=cluster {tmp_path}/out/submit.sh\n" in result.output
    assert submit(tmp_path / "out", tmp_path, MASTER="yarn")[-1] == "s3://lake/shop/main.py"
    assert submit(tmp_path / "out", tmp_path, MASTER="yarn", AT="s3a://copy")[-1] == "s3a://copy/main.py"


def test_folder_and_jobs_have_the_name_of_the_pipeline(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("orders", "Items_2"):
        assert headrace("package", str(write(tmp_path, name=name)), "--at", f"s3://lake/{name}").exit_code == 0
    assert {path.name for path in tmp_path.glob("*-package")} == {"orders-package", "Items_2-package"}
    folder = tmp_path / "Items_2-package"
    assert json.loads((folder / "emr-serverless.json").read_text())["name"] == "Items_2"
    assert yaml.safe_load((folder / "spark-application.yaml").read_text())["metadata"] == {"name": "items-2"}


def test_package_has_no_login_of_a_repository() -> None:
    conf = {"spark.jars.repositories": "https://me:pass@registry.example/", "spark.jars.excludes": "a:b"}
    assert not conf.keys() & package.list_submit_options([], conf).keys()
    assert conf.items() <= package.list_submit_options([], {**conf, "spark.jars.packages": "a:c:1"}).items()


@pytest.mark.parametrize(
    ("spark", "complaint"),
    [
        ({"spark.driver.extraJavaOptions": "-Dstore.password=${env:SALT}"}, "spark.driver.extraJavaOptions"),
        ({"spark.driver.extraJavaOptions": f"-Dstore.password={CANARY}"}, "spark.driver.extraJavaOptions"),
        ({"spark.driver.memory": "${env:SALT}"}, "spark.driver.memory"),
        ({"spark.yarn.appMasterEnv.SALT": "${env:SALT}"}, "spark.yarn.appMasterEnv.SALT"),
        ({"spark.jars": "https://me:${env:SALT}@registry.example/own.jar"}, "where: spark: spark.jars\n"),
        (
            {"spark.jars": f"s3a://lake/a.jar,https://me:{CANARY}@registry.example/own.jar"},
            "fix: copy the jars to a folder",
        ),
        ({"spark.yarn.dist.files": f"https://me:{CANARY}@registry.example/a"}, "spark: spark.yarn.dist.files\n"),
        ({"spark.archives": "s3://lake/mine.zip"}, "a package sets spark.archives itself"),
    ],
)
def test_setting_that_cannot_be_packaged_is_rejected(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Mapping[str, str], complaint: str
) -> None:
    monkeypatch.setenv("SALT", CANARY)
    result = headrace("package", str(write(tmp_path, spark=spark)), "--output", str(tmp_path / "out"))
    assert (result.exit_code, complaint in result.output, CANARY in result.output) == (2, True, False), result.output
    assert ("without a reference" in result.output) == (
        complaint in ("spark.driver.memory", "spark.yarn.appMasterEnv.SALT")
    )
    assert not (tmp_path / "out").exists()


def test_java_options_of_a_plugin_with_a_secret_are_rejected() -> None:
    class Lake(Plugin):
        name = "lake"

        def session_conf(self) -> dict[str, str]:
            return {JAVA_OPTIONS: Secret(f"-Dlake={CANARY}")}

    with pytest.raises(ConfigError, match="by a command that any user can read") as raised:
        package.list_submit_options([Lake()], {})
    assert CANARY not in str(raised.value)


def run_entry(folder: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the package's script with a Python that has no other packages."""
    command: list[str | Path] = [sys.executable, "-I", "-S", folder / "main.py"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("requirement", [{"python": "cpython 3.9"}, {"platform": "plan9-mips"}])
def test_other_python_is_rejected(tmp_path: Path, requirement: Mapping[str, str]) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / "main.py").write_bytes(Path(entry.__file__).read_bytes())
    here = {"python": entry.describe_python(), "platform": sysconfig.get_platform(), "spark": "3.5", **requirement}
    (tmp_path / "environment" / entry.ABOUT).write_text(json.dumps(here))
    done = run_entry(tmp_path, tmp_path)
    assert done.returncode == 2
    assert f"error: the package is for {here['python']} on {here['platform']}; this is" in done.stderr
    assert "fix: set PYSPARK_PYTHON to such a Python" in done.stderr


def test_other_spark_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / "main.py").write_bytes(Path(entry.__file__).read_bytes())
    (tmp_path / "pyspark.py").write_text("__version__ = '2.4.8'")
    requirement = {"python": entry.describe_python(), "platform": sysconfig.get_platform(), "spark": "3.5"}
    (tmp_path / "environment" / entry.ABOUT).write_text(json.dumps(requirement))
    command: list[str | Path] = [sys.executable, "-S", tmp_path / "main.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={})
    assert (done.returncode, "for Spark 3.5; this is 2.4.8" in done.stderr) == (2, True), done.stderr


def test_missing_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_bytes(Path(entry.__file__).read_bytes())
    (tmp_path / "environment").mkdir()  # a folder that is not part of the package
    done = run_entry(tmp_path, tmp_path)
    assert (done.returncode, "--archives environment.zip#environment" in done.stderr) == (2, True), done.stderr
