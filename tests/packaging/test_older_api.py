"""Plugins written for the oldest plugin API that headrace supports. Each kind still works."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.dist import ROOT
from tests.support.site import Site

from headrace import Pipeline
from headrace.config import loader
from headrace.registry import plugin_registry
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import KINDS
from headrace.sdk import API_VERSION, OLDEST_API_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = ROOT / f"tests/packaging/headrace_api_{OLDEST_API_VERSION}"
#: Digest of the files. Edited files would no longer test the old API.
DIGEST = "97a4436494d1720319a80747498763cc3ebf6551d2dcd1b09e236affd95cc3ad"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    """Return a registry with the built-in plugins and the installed distribution of old plugins."""
    site = Site(tmp_path / "site")
    package = f"headrace_api_{OLDEST_API_VERSION}"
    site.install(f"api_{OLDEST_API_VERSION}", "", points=f"old = {package}")
    monkeypatch.syspath_prepend(PROJECT)
    monkeypatch.syspath_prepend(site.folder)
    found = PluginRegistry.from_entry_points()
    for module in (loader, plugin_registry):
        monkeypatch.setattr(module, "registry", lambda: found)
    return found


def test_files_of_old_plugins_are_unchanged() -> None:
    files = sorted(path for path in PROJECT.rglob("*") if path.suffix in (".py", ".toml"))
    texts = [f"{path.relative_to(PROJECT)}\n{path.read_text(encoding='utf-8')}" for path in files]
    assert hashlib.sha256("".join(texts).encode()).hexdigest() == DIGEST


def test_oldest_supported_api_is_at_most_one_version_older() -> None:
    assert API_VERSION - OLDEST_API_VERSION in (0, 1)


def test_old_plugins_of_every_kind_load(registry: PluginRegistry) -> None:
    registrations = [
        item for item in registry.registrations() if item.distribution_name == f"headrace-api_{OLDEST_API_VERSION}"
    ]
    assert [item.kind for item in registrations] == [
        kind for kind in KINDS if kind not in ("command", "connector", "observer")
    ]
    for item in registrations:
        target = registry.load(item)
        assert item.kind == "secret" or target.api_version == OLDEST_API_VERSION
    login = registry.get("auth", "old_scram")(username="orders", password="pepper")
    assert login.client_options("localhost:9092")["sasl.mechanism"] == "SCRAM-SHA-512"
    assert registry.get("filesystem", "old")().hadoop_options("3.5")


def write_log(file: Path, *values: Any) -> None:
    with file.open("a", encoding="utf-8") as log:
        first = file.read_text(encoding="utf-8").count("\n") + 1
        for line, value in enumerate(values, first):
            log.write(json.dumps({"line": line, "topic": "shop.people", "key": None, "value": value}) + "\n")


@pytest.mark.spark
@pytest.mark.one_spark
def test_old_plugins_run_in_a_pipeline(
    registry: PluginRegistry, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pipeline uses the source, dialect, transform, sink and secret provider; another the format and catalog."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "where").write_text(f"{tmp_path}/tables\n")
    log, events = tmp_path / "log.jsonl", tmp_path / "events.jsonl"
    write_log(
        log, *({"action": "insert", "seq": n, "row": {"id": n, "name": name}} for n, name in ((1, "Arp"), (2, "H")))
    )
    people = Pipeline.from_dict(
        {
            "name": "people",
            "source": {"old_log": {"path": str(log)}, "value": "json", "key": "none"},
            "dialects": {"old_actions": {}},
            "tables": [{"source": "*", "key": "id"}],
            "transforms": [{"old_upper": {"columns": ["name"]}}],
            "sink": {"old_csv": {"path": "${old_folder:where}", "mode": "upsert"}},
            "checkpoint": str(tmp_path / "checkpoint"),
        }
    )
    people.run(spark)
    write_log(
        log,
        {"action": "update", "seq": 3, "row": {"id": 1, "name": "Hans Arp"}},
        {"action": "delete", "seq": 4, "row": {"id": 2, "name": "H"}},
    )
    people.run(spark)
    rows = people.read("shop.people", spark=spark).select("id", "name").collect()
    assert [tuple(row) for row in rows] == [(1, "HANS ARP")]

    write_log(events, "1,Arp", '2,"Höch, Hannah"')
    flat = Pipeline.from_dict(
        {
            "name": "flat",
            "source": {
                "old_log": {"path": str(events)},
                "value": {"old_csv": {"columns": "id int, name string"}},
                "key": "none",
            },
            "sink": {
                "files": {"path": str(tmp_path / "files"), "sync": {"old_files": {"path": str(tmp_path / "catalog")}}}
            },
            "checkpoint": str(tmp_path / "flat"),
        }
    )
    flat.run(spark)
    rows_written = flat.read("shop.people", spark=spark).select("id", "name").orderBy("id").collect()
    assert [tuple(row) for row in rows_written] == [(1, "Arp"), (2, "Höch, Hannah")]
    (table,) = (tmp_path / "catalog").glob("*.json")
    assert json.loads(table.read_text(encoding="utf-8"))["columns"]["name"] == "string"
