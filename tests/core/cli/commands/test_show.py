"""Commands ``headrace show``, ``headrace status`` and ``headrace check``, in the Spark session of the test process."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.conftest import SAMPLE, Headrace, deliver

from headrace import HeadraceError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("here"), pytest.mark.one_spark]

PEOPLE_FILE = """\
name: people
source:
  files: {path: people/, format: json}
tables:
  - {source: people, key: id}
transforms: [unwrap]
sink:
  iceberg: {warehouse: lake/}
checkpoint: lake/_checkpoints/people
"""


@pytest.fixture
def session(command_spark: SparkSession) -> SparkSession:
    """Return the session that the program uses and leaves running."""
    return command_spark


def absolute(text: str, folder: Path) -> str:
    """Return a pipeline file with absolute paths, because the JVM keeps its own working directory."""
    return re.sub(r"\b(bronze|people|lake|elsewhere)/", rf"{folder}/\1/", text)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Path]:
    """Return a folder with two batches of artists, and with people of which two are dead letters."""
    folder = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SALT", "pepper")
        (folder / "artists.yaml").write_text(absolute(SAMPLE, folder))
        for offset in (0, 300):
            deliver(folder, offset)
            Pipeline.from_file("artists.yaml").run(spark)
        (folder / "people.yaml").write_text(absolute(PEOPLE_FILE, folder))
        (folder / "people" / "people").mkdir(parents=True)
        good = {
            "before": None,
            "after": {"id": 1, "name": "Höch"},
            "source": {"lsn": 5, "connector": "postgresql"},
            "op": "c",
        }
        lines = [json.dumps({**good, "ts_ms": 1}).encode(), b'{"cut', b"\xff\xfe Arp \x1b[2J"]
        (folder / "people" / "people" / "a.json").write_bytes(b"\n".join(lines))
        Pipeline.from_file("people.yaml").run(spark)
        yield folder


@pytest.fixture
def here(lake: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake)


def test_rows_are_printed_as_a_table(headrace: Headrace) -> None:
    result = headrace("show", "artists.yaml", "moma.artists", "--limit", "2")
    names, *rows, note = result.output.splitlines()
    assert names.split()[:3] == ["artist_id", "name", "country"]
    assert len(rows) == 2
    assert re.match(r" +\d+  [0-9a-f]{64}  \S+", rows[0])
    assert note == "there are more rows than these 2 (--limit)"
    assert headrace("show", "artists.yaml", "moma.artists", "--limit", "0").output.endswith("(--limit)\n")


def test_headrace_columns_and_records_are_printed(headrace: Headrace) -> None:
    plain = headrace("show", "artists.yaml", "moma.artists", "--format", "record", "--limit", "50").output
    assert re.search(r"^country +American$", plain, re.MULTILINE)
    assert "_headrace" not in plain
    own = headrace("show", "artists.yaml", "moma.artists", "--format", "record", "--limit", "1", "--own-columns").output
    assert re.search(r"^_headrace\w+ ", own, re.MULTILINE)


def test_tables_and_versions_are_listed_and_an_old_version_is_shown(headrace: Headrace) -> None:
    names, table = headrace("show", "artists.yaml").output.splitlines()
    assert names.split("  ")[0] == "table"
    assert re.match(r"moma\.artists +iceberg +#1, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+", table)

    _, second, first = headrace("show", "artists.yaml", "moma.artists", "--versions").output.splitlines()
    assert re.match(r"\d+ +iceberg +#1, [-\d]+ [:\d]+ +300 +0", second)
    version = first.split()[0]
    rows = headrace("show", "artists.yaml", "moma.artists", "--as-of", version, "--limit", "1000", "--format", "json")
    assert rows.output.count("\n") == 300
    result = headrace("show", "artists.yaml", "moma.artists", "--as-of", "123456789012")
    assert result.exit_code == 2
    assert "no such version" in result.stderr


def test_tables_and_versions_are_printed_as_json(headrace: Headrace) -> None:
    (table,) = headrace("show", "artists.yaml", "--format", "json").output.splitlines()
    assert {name: json.loads(table)[name] for name in ("table", "sink", "batch")} == {
        "table": "moma.artists",
        "sink": "iceberg",
        "batch": 1,
    }
    found = headrace("show", "artists.yaml", "moma.artists", "--versions", "--format", "json").output.splitlines()
    assert [json.loads(line)["batch"] for line in found] == [1, 0]
    refused = headrace("show", "artists.yaml", "--as-of", "2020-01-01")
    assert (refused.exit_code, "--as-of needs a TABLE" in refused.stderr) == (2, True)


def test_changes_since_a_version_are_shown(headrace: Headrace) -> None:
    table = ("show", "artists.yaml", "moma.artists")
    *_, oldest = headrace(*table, "--versions", "--format", "json").output.splitlines()
    since = json.loads(oldest)["version"]
    shown = headrace(*table, "--since", since, "--limit", "1000", "--format", "json").output.splitlines()
    changes = [json.loads(line) for line in shown]
    before, after = (headrace(*table, *of, "--limit", "1000", "--format", "json") for of in (["--as-of", since], []))
    added = set(after.output.splitlines()) - set(before.output.splitlines())
    assert {(c["op"], json.dumps(c["before"]), c["after"]["artist_id"]) for c in changes} == {
        ("c", "null", json.loads(row)["artist_id"]) for row in added
    }
    names, *rows, note = headrace(*table, "--since", since, "--limit", "2").output.splitlines()
    assert names.split()[:3] == ["op", "artist_id", "name"]
    assert ([row.split()[0] for row in rows], note) == (["c", "c"], "there are more changes than these 2 (--limit)")
    assert headrace(*table, "--since", since, "--until", since).output.splitlines()[-1] == "no changes"


def test_history_of_a_row_is_shown(headrace: Headrace) -> None:
    table = ("show", "artists.yaml", "moma.artists")
    *_, oldest = map(json.loads, headrace(*table, "--versions", "--format", "json").output.splitlines())
    row = json.loads(headrace(*table, "--as-of", oldest["version"], "--format", "json").output.splitlines()[0])
    key = str(row["artist_id"])
    (shown,) = headrace(*table, "--history", key, "--format", "json").stdout.splitlines()
    change = json.loads(shown)
    assert (change["op"], change["version"], change["before"], change["after"]) == ("c", oldest["version"], None, row)
    names, line = headrace(*table, "--history", f"artist_id={key}").stdout.splitlines()
    assert names.split()[:5] == ["op", "version", "written", "position", "artist_id"]
    assert line.split()[:2] == ["c", oldest["version"]]
    missing = headrace(*table, "--history", "-5")
    assert (missing.exit_code, missing.stdout) == (0, "")
    assert missing.stderr == "no version of moma.artists that was read has a row with artist_id=-5\n"
    wrong = headrace(*table, "--history", "Arp")
    assert (wrong.exit_code, "'Arp' is no value of the key column 'artist_id'" in wrong.stderr) == (2, True)


def test_options_for_changes_are_checked(headrace: Headrace) -> None:
    table = ("show", "artists.yaml", "moma.artists")
    refused = headrace(*table, "--since", "1", "--as-of", "1")
    assert (refused.exit_code, "--since compares two" in refused.stderr) == (2, True)
    assert "leave out --own-columns" in headrace(*table, "--since", "1", "--own-columns").stderr
    assert "--until needs --since or --history" in headrace(*table, "--until", "1").stderr
    assert "--history needs a TABLE" in headrace("show", "artists.yaml", "--history", "1").stderr
    assert "leave out --as-of and --own-columns" in headrace(*table, "--history", "1", "--as-of", "1").stderr
    assert "--since needs a TABLE" in headrace("show", "artists.yaml", "--since", "1").stderr


def test_missing_table_is_reported(headrace: Headrace) -> None:
    result = headrace("show", "artists.yaml", "moma.artist")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: there is no table 'moma.artist'" in result.stderr
    assert "fix: did you mean 'moma.artists'?" in result.stderr
    assert (
        "no version of 'moma.artist' is known" in headrace("show", "artists.yaml", "moma.artist", "--versions").stderr
    )
    assert "the table has no sink 'hudi'" in headrace("show", "artists.yaml", "moma.artists", "--sink", "hudi").stderr


def test_dead_letters_are_shown(headrace: Headrace) -> None:
    output = headrace("show", "people.yaml", "dead_letters").output
    cut, binary = output.split("\n\n")
    assert re.search(r'^value +\{"cut$', cut, re.MULTILINE)
    assert re.search(r"^value +\\xff\\xfe Arp \\x1b\[2J$", binary, re.MULTILINE)
    assert re.search(r"^topic +people$", binary, re.MULTILINE)
    records = [
        json.loads(line)
        for line in headrace("show", "people.yaml", "dead_letters", "--format", "json").output.splitlines()
    ]
    assert [record["value"] for record in records] == ['{"cut', "\\xff\\xfe Arp \x1b[2J"]
    assert all(re.fullmatch(r"[-\d]+T[:\d.]+Z", record["seen"]) for record in records)
    assert "dead_letters: 2 in the last batch" in headrace("show", "people.yaml").output

    head, *lines = headrace("dead-letters", "people.yaml").stdout.splitlines()
    assert head.split() == "table reason records first seen last seen first record error".split()  # noqa: SIM905
    assert [line.split()[:3] for line in lines] == [["people", "undecodable", "1"]] * 2
    errors = sorted(re.split(r"\.json/\d+ +", line)[1] for line in lines)
    assert errors == ["the record is not UTF-8", "the record is not valid JSON, or not a single JSON document"]
    each = headrace("dead-letters", "people.yaml", "--reason", "undecodable").stdout
    assert re.search(r'^value +\{"cut$', each, re.MULTILINE)
    assert re.search(r"^plugin +files$", each, re.MULTILINE)
    assert headrace("dead-letters", "people.yaml", "--table", "others").stdout == "no rows\n"

    assert headrace("replay", "people.yaml").stdout == "people: 2 dead letters replayed, 2 still dead letters\n"
    (file,) = Path("people/people").iterdir()
    file.rename("a.json")
    replayed = headrace("replay", "people.yaml")
    assert (replayed.exit_code, replayed.stdout) == (0, "")
    output = "people: 2 dead letters kept: their files are missing or have fewer records\n"
    assert replayed.stderr == output
    Path("a.json").rename(file)

    none = headrace("dead-letters", "artists.yaml")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "there are no dead letters\n")
    none = headrace("show", "artists.yaml", "dead_letters")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "there are no dead letters\n")


def test_status_shows_progress_of_each_table(headrace: Headrace) -> None:
    names, table = headrace("status", "artists.yaml").output.splitlines()
    assert re.split(" {2,}", names) == ["table", "sink", "lag", "rows/s", "latency", "last batch"]
    assert re.match(r"moma\.artists +iceberg +– +\d+ +\d\.\d y +#1, [\d.]+ (s|min) ago$", table)
    output = headrace("status", "people.yaml").output.splitlines()[-1]
    assert output == "of the last 1 batch: 2 dead letters, stored with their bytes: headrace dead-letters people.yaml"
    status = json.loads(headrace("status", "artists.yaml", "--format", "json").output)
    assert (status["table"], status["sink"], status["batch"], status["error"]) == ("moma.artists", "iceberg", 1, None)


def test_failed_table_is_shown_until_it_recovers(
    headrace: Headrace, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\nsource: {{files: {{path: {tmp_path}/people, format: json}}}}\n"
        f"sink: {{files: {{path: {tmp_path}/lake}}}}\ncheckpoint: {tmp_path}/checkpoint\n"
    )
    for topic in ("good", "bad"):
        (tmp_path / "people" / topic).mkdir(parents=True)
        (tmp_path / "people" / topic / "a.json").write_text('{"id": 1}')
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "bad").write_text("no folder")
    with pytest.raises(HeadraceError, match="table bad"):
        Pipeline.from_file("shop.yaml").run(spark)
    waits = re.compile(r"bad: failing since 20\d\d-\d\d-\d\dT[\d:+]+, 1 batch waiting: .*table bad")
    _, bad, good, why, *_ = headrace("status", "shop.yaml").output.splitlines()
    assert re.split(" {2,}", bad) == ["bad", "files", "1 batch", "0", "–", "–"]
    assert re.match(r"good +files .* #0, [\d.]+ (s|min) ago$", good)
    assert waits.match(why)
    bad, _ = map(json.loads, headrace("status", "shop.yaml", "--format", "json").output.splitlines())
    assert (bad["table"], bad["lag"], bad["latency_ms"], bad["backlog"]) == ("bad", None, None, 1)
    assert bad["failing_since"][:2] == "20"
    assert "table bad" in bad["error"]
    # A failure is shown even if the progress of its batch has been removed.
    shutil.rmtree(tmp_path / "checkpoint" / "progress")
    _, bad, why, *_ = headrace("status", "shop.yaml").output.splitlines()
    assert re.split(" {2,}", bad) == ["bad", "files", "1 batch", "0", "–", "–"]
    assert waits.match(why)
    (tmp_path / "lake" / "bad").unlink()
    Pipeline.from_file("shop.yaml").run(spark)
    assert "failing" not in headrace("status", "shop.yaml").output


def test_status_of_a_pipeline_that_never_ran(headrace: Headrace, lake: Path) -> None:
    (lake / "new.yaml").write_text(absolute(SAMPLE.replace("lake/_checkpoints", "elsewhere"), lake))
    result = headrace("show", "new.yaml")
    assert (result.exit_code, result.stderr) == (0, "no tables yet: headrace run new.yaml\n")
    result = headrace("status", "new.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no tables yet: headrace run new.yaml\n"
    assert not (lake / "elsewhere").exists()


def test_check_reports_the_pipeline(headrace: Headrace, lake: Path) -> None:
    result = headrace("check", "artists.yaml")
    assert result.exit_code == 0
    found = dict(re.split(r"  +", line.rstrip(), maxsplit=1) for line in result.output.splitlines()[1:-1])
    assert found["plugins"] == "files, unwrap, rename, mask, iceberg"
    assert found["session"].startswith("Spark ")
    assert found["topic moma.public.artists"].startswith(
        "table moma.artists, key artist_id, columns artist_id, name, country"
    )
    assert result.output.splitlines()[-1] == "artists.yaml can be run, with the warnings above"

    (lake / "wrong.yaml").write_text(absolute(SAMPLE.replace("{nationality:", "{nationalty:"), lake))
    result = headrace("check", "wrong.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no table has the column 'nationalty'" in result.stderr
    assert "did you mean 'nationality'?" in result.stderr
