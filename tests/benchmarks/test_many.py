from __future__ import annotations

import json

import pytest
from benchmarks.many import Held, ages_of, changes, main


def test_ages_are_from_when_a_row_came_to_the_end_of_its_batch() -> None:
    # The first row was there before; the second batch has two, and one came too late for all.
    assert ages_of([10.0, 11.0, 12.5, 20.0], [(9.0, 1), (15.0, 2), (16.0, 0), (18.0, 1)]) == [5.0, 4.0, 5.5]


def test_changes_are_newer_than_those_before() -> None:
    events = [json.loads(record.value or b"") for record in [*changes(0, 2), *changes(2, 2)]]
    assert [event["after"]["id"] for event in events] == [0, 1, 2, 3]
    assert [event["source"]["lsn"] for event in events] == [1, 2, 3, 4]


def test_what_a_run_holds_is_one_line() -> None:
    text = str(Held(batches=50, threads=70, heap=300 * 2**20, sockets=40, files=120))
    assert text == "50 batches: 70 Java threads, heap 300 MiB, 40 open files, 120 checkpoint files"


@pytest.mark.parametrize("arguments", [["everything", "--work", "out"], ["runs"]], ids=" ".join)
def test_what_cannot_be_measured_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
