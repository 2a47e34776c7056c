"""Demo data: it matches its manifest, and its events produce the museum's rows."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

DATA = Path(__file__).parents[3] / "plugins/demo-data/headrace_demo_data/museum"
MANIFEST: dict[str, Any] = json.loads((DATA / "manifest.json").read_text(encoding="utf-8"))
ARTWORKS, ARTISTS = "moma.public.artworks", "moma.public.artists"
DATES = ["2015-07-17", "2015-07-23", "2015-08-15"]
TOPICS = [(date, topic) for date, topics in MANIFEST["dates"].items() for topic in topics]
KEYS = {ARTWORKS: "artwork_id", ARTISTS: "artist_id"}

Event = dict[str, Any]


def topic_of(date: str, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = MANIFEST["dates"][date][topic]
    return found


def read(file: dict[str, Any]) -> list[Event]:
    with (DATA / file["path"]).open("rb") as opened:
        return [event for event in fastavro.reader(opened) if isinstance(event, dict)]


@pytest.fixture(scope="module")
def events() -> dict[tuple[str, str], list[Event]]:
    return {
        (date, topic): [event for file in topic_of(date, topic)["files"] for event in read(file)]
        for date, topic in TOPICS
    }


def iterate_artworks(events: dict[tuple[str, str], list[Event]]) -> Iterator[Event]:
    return (event for date in DATES for event in events[date, ARTWORKS])


def test_dates() -> None:
    assert [*MANIFEST["dates"]] == DATES
    assert [*((date, ARTWORKS) for date in DATES), (DATES[2], ARTISTS)] == TOPICS


def test_folder_contains_exactly_the_files_of_the_manifest() -> None:
    listed = {file["path"] for date, topic in TOPICS for file in topic_of(date, topic)["files"]}
    beside = {"manifest.json", "LICENSE.txt", "SOURCE.md"}
    assert {path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file()} == listed | beside


def test_data_is_smaller_than_three_megabytes() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 3_000_000
    assert MANIFEST["bytes"] == sum(topic_of(date, topic)["bytes"] for date, topic in TOPICS)


@pytest.mark.parametrize(("date", "topic"), TOPICS)
def test_bytes(date: str, topic: str) -> None:
    files = topic_of(date, topic)["files"]
    for file in files:
        content = (DATA / file["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"]), file["path"]
    assert topic_of(date, topic)["bytes"] == sum(file["bytes"] for file in files)


@pytest.mark.parametrize("topic", KEYS)
def test_offsets_in_file_names_are_continuous(topic: str) -> None:
    offset = 0
    for date in DATES:
        if (date, topic) not in TOPICS:
            continue
        assert topic_of(date, topic)["first_offset"] == offset
        for file in topic_of(date, topic)["files"]:
            assert file["path"] == f"{date}/topics/{topic}/partition=0/{topic}+0+{offset:010d}.avro"
            assert len(read(file)) == file["events"]
            offset += file["events"]


@pytest.mark.parametrize(("date", "topic"), TOPICS)
def test_counts(date: str, topic: str, events: dict[tuple[str, str], list[Event]]) -> None:
    entry, found = topic_of(date, topic), events[date, topic]
    assert len(found) == entry["events"]
    assert Counter(event["op"] for event in found) == entry["ops"]


@pytest.mark.parametrize("topic", KEYS)
def test_replay_gives_the_rows_of_every_date(topic: str, events: dict[tuple[str, str], list[Event]]) -> None:
    key, rows = KEYS[topic], dict[int, dict[str, Any]]()
    for date in (date for date in DATES if (date, topic) in TOPICS):
        entry = topic_of(date, topic)
        added = dict.fromkeys(entry["columns"])
        for event in events[date, topic]:
            number = (event["after"] or event["before"])[key]
            assert event["before"] == ({**added, **rows[number]} if number in rows else None)
            if event["op"] == "d":
                del rows[number]
            else:
                rows[number] = event["after"]
        assert len(rows) == entry["rows_after"]
        lines = (
            json.dumps([rows[number].get(c) for c in entry["columns"]], ensure_ascii=False, separators=(",", ":"))
            for number in sorted(rows)
        )
        assert hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest() == entry["rows_sha256"]


@pytest.mark.parametrize(("date", "topic"), TOPICS)
def test_every_event_has_the_fields(date: str, topic: str, events: dict[tuple[str, str], list[Event]]) -> None:
    columns = topic_of(date, topic)["columns"]
    for event in events[date, topic]:
        assert [*event] == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
        assert (event["before"] is None) == (event["op"] in "rc")
        assert (event["after"] is None) == (event["op"] == "d")
        for image in (event["before"], event["after"]):
            assert image is None or [*image] == columns
        source = event["source"]
        assert (source["connector"], source["db"], source["schema"]) == ("postgresql", "moma", "public")
        assert f"moma.public.{source['table']}" == topic
        assert source["lsn"] == int(json.loads(source["sequence"])[1])
        assert source["ts_ms"] < event["ts_ms"]


def test_third_date_adds_a_column(events: dict[tuple[str, str], list[Event]]) -> None:
    assert [["image_url" in topic_of(date, ARTWORKS)["columns"]] for date in DATES] == [[False], [False], [True]]
    third = events[DATES[2], ARTWORKS]
    assert all(event["before"]["image_url"] is None for event in third if event["op"] == "u")
    assert sum(event["op"] == "u" and event["after"]["image_url"] is not None for event in third) > 8_000


def test_last_events_are_the_deletes_of_the_manifest(
    events: dict[tuple[str, str], list[Event]],
) -> None:
    deleted = MANIFEST["deleted"][ARTWORKS]
    last = events[DATES[2], ARTWORKS][-len(deleted) :]
    assert [event["before"]["artwork_id"] for event in last] == deleted
    assert {event["op"] for event in last} == {"d"}
    assert sum(event["op"] == "d" for event in iterate_artworks(events)) == len(deleted)


def test_updates_exist_at_both_later_dates_for_the_same_rows(events: dict[tuple[str, str], list[Event]]) -> None:
    second, third = (
        {event["after"]["artwork_id"] for event in events[date, ARTWORKS] if event["op"] == "u"} for date in DATES[1:]
    )
    assert len(second & third) > 1_000


def test_positions_follow_the_order_of_events(events: dict[tuple[str, str], list[Event]]) -> None:
    found = [event["source"] for event in iterate_artworks(events)]
    positions = [tuple(int(lsn or 0) for lsn in json.loads(source["sequence"])) for source in found]
    snapshot = topic_of(DATES[0], ARTWORKS)["events"]
    assert len(set(positions[:snapshot])) == 1
    assert all(before < after for before, after in zip(positions[snapshot - 1 :], positions[snapshot:], strict=False))
    assert [source["snapshot"] for source in found[:snapshot]] == ["first", *["true"] * (snapshot - 2), "last"]
    assert {source["snapshot"] for source in found[snapshot:]} == {"false"}
    assert max(Counter(source["txId"] for source in found[snapshot:]).values()) == 100
