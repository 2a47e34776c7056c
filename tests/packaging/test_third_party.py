"""Third-party plugins that are installed from their own wheels."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from tests.support.dist import build_project_wheel, run
from tests.support.spark_conf import interpret_plans
from tests.support.venv import Venv

pytestmark = [pytest.mark.nightly, pytest.mark.dist, pytest.mark.spark, pytest.mark.one_spark]

PROJECTS = Path(__file__).parent
#: Settings of a small session, because many tests run on the machine.
SMALL_SESSION = 'spark: {spark.master: "local[2]", spark.sql.shuffle.partitions: 2, spark.driver.memory: 1g}\n'


@pytest.fixture(scope="session")
def rival(venv: Venv, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install one more distribution in a folder and return it for ``PYTHONPATH``."""
    folder = tmp_path_factory.mktemp("rival")
    wheel = build_project_wheel(PROJECTS / "headrace_rival", folder)
    run([venv.bin / "pip", "install", "--quiet", "--no-deps", "--target", folder / "site", wheel], folder)
    return str(folder / "site")


class Shop:
    """Log of a database with one table, and a pipeline file for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines = folder, 0
        self.file = folder / "pipeline.yaml"
        self.file.write_text((PROJECTS / "headrace_acme/pipeline.yaml").read_text() + SMALL_SESSION)

    def log(self, *changes: tuple[str, int, str | None]) -> None:
        """Append events, each given as operation, id and name."""
        with (self.folder / "shop.jsonl").open("a") as file:
            for op, number, name in changes:
                self.lines += 1
                row = {"id": number, "name": name, "note": f'"{number}",\n'} if op != "d" else None
                before = {"id": number} if op != "c" else None
                source = {"connector": "postgresql", "lsn": self.lines * 8, "ts_ms": 1_600_000_000_000}
                event = {"op": op, "before": before, "after": row, "source": source}
                record = {"line": self.lines, "topic": "acme.public.artists", "key": {"id": number}, "value": event}
                file.write(json.dumps(record) + "\n")

    def line(self, text: str) -> str:
        """Return the location of a string in the pipeline file, in the form of error messages."""
        before, _, _ = self.file.read_text().partition(text)
        return f"{self.file}:{before.count(chr(10)) + 1}"

    def table(self) -> list[dict[str, str]]:
        """Return the rows in the CSV files of the newest version, without deleted rows."""
        newest = max((self.folder / "tables/artists").glob("*/_table.json")).parent
        return sorted((row for row in rows(newest.glob("*.csv")) if row.pop("_headrace_deleted") == "false"), key=str)


def rows(paths: Iterable[Path]) -> Iterable[dict[str, str]]:
    for path in paths:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                assert row.pop("_headrace_position")
                yield row


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


#: One plugin of each kind, with names that no built-in plugin has.
NEW_PLUGINS = {
    "source": "shop_log",
    "format": "plain_csv",
    "dialect": "actions",
    "connector": "oracle",
    "transform": "tidy",
    "sink": "lake_files",
    "auth": "scram",
    "catalog": "table_files",
    "filesystem": "gs",
    "observer": "event_log",
    "secrets": "folder",
}


@pytest.fixture(scope="session")
def new_projects(venv: Venv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a project of each kind with `headrace new` in one folder, and install all of them in its subfolder `site`."""
    folder = tmp_path_factory.mktemp("new")
    for kind, name in NEW_PLUGINS.items():
        venv.headrace("new", kind, name, cwd=folder)
    venv.install(*sorted(folder.glob("headrace-*")), site=folder / "site")
    return folder


def artist(number: int, name: str, op: str) -> dict[str, str]:
    return {"id": str(number), "name": name, "note": f'"{number}",\n', "__op": op}


def test_installed_plugins_are_listed(venv: Venv, tmp_path: Path) -> None:
    found = json.loads(venv.headrace("plugins", "--json", cwd=tmp_path))
    assert [item for item in found if item["distribution"] == "headrace-acme 1.0"] == [
        plugin_entry("source", "acme_log", "ranged", "records", "replay"),
        plugin_entry("transform", "acme_upper"),
        plugin_entry("sink", "acme_csv", "upsert", "delete", "schema evolution", "exactly once"),
    ]
    assert {item["state"] for item in found} == {"ok"}


def plugin_entry(kind: str, name: str, *capabilities: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "distribution": "headrace-acme 1.0",
        "api_version": 1,
        "capabilities": list(capabilities),
        "reason": None,
        "state": "ok",
    }


def test_plugins_run_together_with_built_in_transform(venv: Venv, shop: Shop) -> None:
    shop.log(("c", 1, "Arp"), ("c", 2, "Höch"), ("u", 1, "Hans Arp"), ("c", 3, "Klee"), ("d", 2, None))
    venv.headrace("run", str(shop.file), "--available-now", cwd=shop.folder)
    assert shop.table() == [artist(1, "HANS ARP", "u"), artist(3, "KLEE", "c")]
    offsets = shop.folder / "checkpoint/ranged/offsets"
    assert [json.loads((offsets / n).read_text())["end"]["line"] for n in ("0", "1")] == [3, 5]

    shop.log(("c", 4, "Kahlo"), ("d", 3, None))
    venv.headrace("run", str(shop.file), "--available-now", cwd=shop.folder)
    assert shop.table() == [artist(1, "HANS ARP", "u"), artist(4, "KAHLO", "c")]
    assert json.loads((offsets / "2").read_text()) == {"start": {"line": 5}, "end": {"line": 7}}


def test_options_of_plugin_are_checked(venv: Venv, shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text().replace("limit: 3", "limits: 3"))
    error = venv.headrace("check", str(shop.file), cwd=shop.folder, ok=2)
    assert f"{shop.line('acme_log')} source.acme_log.limits" in error
    assert "limit" in error.partition("fix:")[2]


def test_name_claimed_by_two_distributions_is_broken(venv: Venv, rival: str, shop: Shop) -> None:
    found = json.loads(venv.headrace("plugins", "--json", cwd=shop.folder, path=rival))
    duplicates = [item for item in found if item["name"] == "acme_log"]
    assert {item["distribution"] for item in duplicates} == {"headrace-acme 1.0", "headrace-rival 0.9"}
    for item in duplicates:
        assert item["state"] == "broken"
        assert "registered twice, by headrace-acme 1.0 and headrace-rival 0.9" in item["reason"]
    assert {item["state"] for item in found if item["distribution"].startswith("headrace 0")} == {"ok"}

    shop.log(("c", 1, "Arp"))
    error = venv.headrace("check", str(shop.file), cwd=shop.folder, ok=3, path=rival)
    assert shop.line("acme_log") in error
    assert "headrace-acme 1.0 and headrace-rival 0.9" in error


def test_plugin_of_another_api_version_is_broken(venv: Venv, rival: str, shop: Shop) -> None:
    found = json.loads(venv.headrace("plugins", "--json", cwd=shop.folder, path=rival))
    (old,) = [item for item in found if item["name"] == "rival_lower"]
    assert (old["state"], old["distribution"]) == ("broken", "headrace-rival 0.9")
    assert "was written for plugin API 0; this headrace has 1" in old["reason"]

    text = shop.file.read_text().replace("acme_log: {", "files: {format: json, ").replace(", limit: 3", "")
    shop.file.write_text(text.replace("acme_upper: {columns: [name]}", "rival_lower: {}"))
    error = venv.headrace("check", str(shop.file), cwd=shop.folder, ok=3, path=rival)
    assert shop.line("rival_lower") in error
    assert "was written for plugin API 0; this headrace has 1" in error


def test_third_party_and_new_plugins_pass_their_kits(venv: Venv, new_projects: Path, tmp_path: Path) -> None:
    """One process with one session runs the tests of Acme and of the new projects."""
    acme = shutil.copytree(
        PROJECTS / "headrace_acme/tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    tests = sorted(new_projects.glob("headrace-*/tests"))
    assert len(tests) == len(NEW_PLUGINS)
    options = ("-q", "-p", "headrace.testing.spark", "-p", "headrace.testing.report", "--import-mode=importlib")
    command: list[str | Path] = [venv.bin / "python", "-m", "pytest", *options, acme, *tests]
    environment = {"PYTHONPATH": str(new_projects / "site"), **interpret_plans(tmp_path / "conf")}
    result = run(command, new_projects, seconds=600, environment=environment)
    assert re.search(r"^\d+ passed in ", result.stdout, re.MULTILINE), result.stdout
    assert re.search(
        r"^sink lake_files\n( .*\n)*    exactly_once +2 passed\n( .*\n)*    upsert +not claimed$",
        result.stdout,
        re.MULTILINE,
    )


def test_new_plugins_run_in_a_pipeline(venv: Venv, new_projects: Path, tmp_path: Path) -> None:
    path = str(new_projects / "site")
    found = json.loads(venv.headrace("plugins", "--json", cwd=tmp_path, path=path))
    states = {(item["kind"], item["name"]): item["state"] for item in found}
    assert [states.get((kind.removesuffix("s"), name)) for kind, name in NEW_PLUGINS.items()] == ["ok"] * len(
        NEW_PLUGINS
    )

    events = [
        {"action": "insert", "seq": 1, "row": {"id": 1, "name": " Arp "}},
        {"action": "update", "seq": 2, "row": {"id": 1, "name": "Hans Arp "}},
    ]
    lines = [{"line": n, "topic": "shop.people", "key": None, "value": event} for n, event in enumerate(events, 1)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "where").write_text("lake\n")
    (tmp_path / "people.yaml").write_text(
        "name: people\n"
        "source: {shop_log: {path: log.jsonl}, value: json, key: none}\n"
        "dialects: {actions: {}}\n"
        "tables: [{source: '*', key: id}]\n"
        "transforms: [{tidy: {columns: [name]}}]\n"
        "sink: {lake_files: {path: '${folder:where}', mode: changelog}}\n"
        f"checkpoint: checkpoint\n{SMALL_SESSION}"
    )
    environment = {"PYTHONPATH": path, "CREDENTIALS_DIRECTORY": str(tmp_path)}
    run([venv.bin / "headrace", "run", "people.yaml", "--available-now"], tmp_path, environment=environment)
    files = sorted((tmp_path / "lake/shop/people").glob("batch=*/*.parquet"))
    rows_written = [row for file in files for row in parquet.read_table(file).to_pylist()]
    assert sorted((row["__op"], row["id"], row["name"]) for row in rows_written) == [
        ("c", 1, "Arp"),
        ("u", 1, "Hans Arp"),
    ]
