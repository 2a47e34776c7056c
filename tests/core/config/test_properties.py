"""Parser of Java properties."""

from __future__ import annotations

import pytest

from headrace.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb:2\r\nc 3\rd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n  ! no\n\n \t\n  a = 1 2 \n", {"a": "1 2 "}),
        ("password=a=b:c d\\=", {"password": "a=b:c d="}),
        ("a\\ b\\:c\\=d = x", {"a b:c=d": "x"}),
        ("long = one \\\n    two\\\\\\\n  # three\nb=\\\\\nc=", {"long": "one two\\# three", "b": "\\", "c": ""}),
        ("u=\\u00e9\\t\\q", {"u": "é\tq"}),
        ("only", {"only": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
    ],
)
def test_properties_are_parsed(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs
