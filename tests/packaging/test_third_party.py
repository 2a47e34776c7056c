"""A plugin that is none of headrace's: installed from its own wheel, it is as good as a built-in one."""

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
from tests.support.dist import run, wheel_of
from tests.support.spark_conf import interpret_plans
from tests.support.venv import Venv

pytestmark = [pytest.mark.nightly, pytest.mark.dist, pytest.mark.spark, pytest.mark.one_spark]

PROJECTS = Path(__file__).parent
#: For a machine of many tests.
SMALL = 'spark: {spark.master: "local[2]", spark.sql.shuffle.partitions: 2, spark.driver.memory: 1g}\n'


@pytest.fixture(scope="session")
def rival(venv: Venv, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of one more distribution, for the path of whoever wants to see it."""
    folder = tmp_path_factory.mktemp("rival")
    wheel = wheel_of(PROJECTS / "headrace_rival", folder)
    run([venv.bin / "pip", "install", "--quiet", "--no-deps", "--target", folder / "site", wheel], folder)
    return str(folder / "site")


class Shop:
    """The log of a database with one table, and a pipeline file for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines = folder, 0
        self.file = folder / "pipeline.yaml"
        self.file.write_text((PROJECTS / "headrace_acme/pipeline.yaml").read_text() + SMALL)

    def log(self, *changes: tuple[str, int, str | None]) -> None:
        """Appends events: op, id, name."""
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
        """Where the file has it, as complaints say it."""
        before, _, _ = self.file.read_text().partition(text)
        return f"{self.file}:{before.count(chr(10)) + 1}"

    def table(self) -> list[dict[str, str]]:
        """The rows that are not deleted, in the newest version's CSV files."""
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


#: Of each kind one, called like nothing that is there.
NEW = {
    "source": "shop_log",
    "format": "plain_csv",
    "dialect": "actions",
    "connector": "oracle",
    "transform": "tidy",
    "sink": "lake_files",
    "auth": "scram",
    "catalog": "table_files",
    "filesystem": "gs",
    "secrets": "folder",
}


@pytest.fixture(scope="session")
def new(venv: Venv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a new project for each kind, as `headrace new` writes it, and all of them installed in its folder `site`."""
    folder = tmp_path_factory.mktemp("new")
    for kind, name in NEW.items():
        venv.headrace("new", kind, name, cwd=folder)
    venv.install(*sorted(folder.glob("headrace-*")), site=folder / "site")
    return folder


def artist(number: int, name: str, op: str) -> dict[str, str]:
    return {"id": str(number), "name": name, "note": f'"{number}",\n', "__op": op}


def test_it_is_listed(venv: Venv, tmp_path: Path) -> None:
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


def test_its_source_transform_and_sink_run_with_a_built_in_transform(venv: Venv, shop: Shop) -> None:
    shop.log(("c", 1, "Arp"), ("c", 2, "Höch"), ("u", 1, "Hans Arp"), ("c", 3, "Klee"), ("d", 2, None))
    venv.headrace("run", str(shop.file), "--available-now", cwd=shop.folder)
    assert shop.table() == [artist(1, "HANS ARP", "u"), artist(3, "KLEE", "c")]
    offsets = shop.folder / "checkpoint/ranged/offsets"
    assert [json.loads((offsets / n).read_text())["end"]["line"] for n in ("0", "1")] == [3, 5]

    shop.log(("c", 4, "Kahlo"), ("d", 3, None))
    venv.headrace("run", str(shop.file), "--available-now", cwd=shop.folder)
    assert shop.table() == [artist(1, "HANS ARP", "u"), artist(4, "KAHLO", "c")]
    assert json.loads((offsets / "2").read_text()) == {"start": {"line": 5}, "end": {"line": 7}}


def test_its_options_are_checked_as_anybodys(venv: Venv, shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text().replace("limit: 3", "limits: 3"))
    complaint = venv.headrace("check", str(shop.file), cwd=shop.folder, ok=2)
    assert f"{shop.line('acme_log')} source.acme_log.limits" in complaint
    assert "limit" in complaint.partition("fix:")[2]


def test_a_name_that_two_distributions_claim(venv: Venv, rival: str, shop: Shop) -> None:
    found = json.loads(venv.headrace("plugins", "--json", cwd=shop.folder, path=rival))
    twice = [item for item in found if item["name"] == "acme_log"]
    assert {item["distribution"] for item in twice} == {"headrace-acme 1.0", "headrace-rival 0.9"}
    for item in twice:
        assert item["state"] == "broken"
        assert "registered twice, by headrace-acme 1.0 and headrace-rival 0.9" in item["reason"]
    assert {item["state"] for item in found if item["distribution"].startswith("headrace 0")} == {"ok"}

    shop.log(("c", 1, "Arp"))
    complaint = venv.headrace("check", str(shop.file), cwd=shop.folder, ok=3, path=rival)
    assert shop.line("acme_log") in complaint
    assert "headrace-acme 1.0 and headrace-rival 0.9" in complaint


def test_a_plugin_of_another_api_version(venv: Venv, rival: str, shop: Shop) -> None:
    found = json.loads(venv.headrace("plugins", "--json", cwd=shop.folder, path=rival))
    (old,) = [item for item in found if item["name"] == "rival_lower"]
    assert (old["state"], old["distribution"]) == ("broken", "headrace-rival 0.9")
    assert "was written for plugin API 0, this headrace has 1" in old["reason"]

    text = shop.file.read_text().replace("acme_log: {", "files: {format: json, ").replace(", limit: 3", "")
    shop.file.write_text(text.replace("acme_upper: {columns: [name]}", "rival_lower: {}"))
    complaint = venv.headrace("check", str(shop.file), cwd=shop.folder, ok=3, path=rival)
    assert shop.line("rival_lower") in complaint
    assert "was written for plugin API 0, this headrace has 1" in complaint


def test_they_keep_what_the_kits_ask_of_them(venv: Venv, new: Path, tmp_path: Path) -> None:
    """Acme's tests and those that `headrace new` writes, in one process and with one session."""
    acme = shutil.copytree(
        PROJECTS / "headrace_acme/tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    tests = sorted(new.glob("headrace-*/tests"))
    assert len(tests) == len(NEW)
    options = ("-q", "-p", "headrace.testing.spark", "-p", "headrace.testing.report", "--import-mode=importlib")
    command: list[str | Path] = [venv.bin / "python", "-m", "pytest", *options, acme, *tests]
    environment = {"PYTHONPATH": str(new / "site"), **interpret_plans(tmp_path / "conf")}
    result = run(command, new, seconds=600, environment=environment)
    assert re.search(r"^\d+ passed in ", result.stdout, re.MULTILINE), result.stdout
    assert re.search(
        r"^sink lake_files\n( .*\n)*    exactly_once +1 passed\n( .*\n)*    upsert +not claimed$",
        result.stdout,
        re.MULTILINE,
    )


def test_new_plugins_run_in_a_pipeline(venv: Venv, new: Path, tmp_path: Path) -> None:
    path = str(new / "site")
    found = json.loads(venv.headrace("plugins", "--json", cwd=tmp_path, path=path))
    states = {(item["kind"], item["name"]): item["state"] for item in found}
    assert [states.get((kind.removesuffix("s"), name)) for kind, name in NEW.items()] == ["ok"] * len(NEW)

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
        f"checkpoint: checkpoint\n{SMALL}"
    )
    environment = {"PYTHONPATH": path, "CREDENTIALS_DIRECTORY": str(tmp_path)}
    run([venv.bin / "headrace", "run", "people.yaml", "--available-now"], tmp_path, environment=environment)
    files = sorted((tmp_path / "lake/shop/people").glob("batch=*/*.parquet"))
    stored = [row for file in files for row in parquet.read_table(file).to_pylist()]
    assert sorted((row["__op"], row["id"], row["name"]) for row in stored) == [("c", 1, "Arp"), ("u", 1, "Hans Arp")]
