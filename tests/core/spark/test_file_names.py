"""Names of files for names of topics, without Spark."""

from __future__ import annotations

import pytest

from headrace.spark.storage import name_file


@pytest.mark.parametrize("letter", ["t", "č"])
def test_long_name_is_shortened_and_stays_unique(letter: str) -> None:
    names = {name_file(f"{letter * length}-{part}", ".json") for length in range(1, 250) for part in ("key", "value")}
    assert len(names) == 2 * 249
    assert max(len(f".{name}.crc") for name in names) == 255
    assert all(name.endswith(".json") for name in names)


def test_short_name_is_encoded() -> None:
    assert name_file("shop/č-value", ".json") == "shop%2F%C4%8D-value.json"
