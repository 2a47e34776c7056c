from __future__ import annotations

import json

import pytest
from benchmarks.many import Held, ages_of, changes, main


def test_ages_are_measured_from_arrival_of_row_to_end_of_batch() -> None:
    # The first batch has one row and the second has two. The last row arrives after every batch.
    assert ages_of([10.0, 11.0, 12.5, 20.0], [(9.0, 1), (15.0, 2), (16.0, 0), (18.0, 1)]) == [5.0, 4.0, 5.5]


def test_changes_have_increasing_lsns() -> None:
    events = [json.loads(record.value or b"") for record in [*changes(0, 2), *changes(2, 2)]]
    assert [event["after"]["id"] for event in events] == [0, 1, 2, 3]
    assert [event["source"]["lsn"] for event in events] == [1, 2, 3, 4]


def test_resources_of_run_are_printed_on_one_line() -> None:
    text = str(Held(batches=50, threads=70, heap=300 * 2**20, sockets=40, files=120))
    assert text == "50 batches: 70 Java threads, heap 300 MiB, 40 open files, 120 checkpoint files"


@pytest.mark.parametrize("arguments", [["everything", "--work", "out"], ["runs"]], ids=" ".join)
def test_invalid_arguments_are_rejected(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
