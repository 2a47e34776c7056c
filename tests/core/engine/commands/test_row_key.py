"""Keys of single rows, as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError
from headrace.engine.commands.row_key import parse_key


@pytest.mark.parametrize(
    ("given", "columns", "expected"),
    [
        ("7", ["id"], {"id": "7"}),
        ("id=7", ["id"], {"id": "7"}),
        ("ID =7", ["id"], {"id": "7"}),
        ("id=7,id=8", ["id"], {"id": "id=7,id=8"}),
        ("a=b,c", ["id"], {"id": "a=b,c"}),
        ("id=a,b=c", ["id"], {"id": "a,b=c"}),
        ("", ["id"], {"id": ""}),
        ("region=eu,id=1", ["id", "region"], {"id": "1", "region": "eu"}),
        ("id=1, region=eu", ["id", "region"], {"id": "1", "region": "eu"}),
        ("id=1,region=a,b=c", ["id", "region"], {"id": "1", "region": "a,b=c"}),
        ("id=1,region=", ["id", "region"], {"id": "1", "region": ""}),
        ({"REGION": "eu", "id": 1}, ["id", "region"], {"id": 1, "region": "eu"}),
    ],
)
def test_key_names_its_columns(given: Any, columns: list[str], expected: dict[str, Any]) -> None:
    assert parse_key(given, columns) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1", "'1' is no key of several columns\n  fix: write id=VALUE,region=VALUE"),
        ("", "'' is no key of several columns"),
        ("id=1", "the key column 'region' has no value\n  fix: write id=VALUE,region=VALUE"),
        ("id=1,regoin=eu", "the key column 'region' has no value"),
        ("regoin=eu,id=1", "'regoin=eu,id=1' is no key of several columns"),
        ({"id": 1, "regoin": "eu"}, "'regoin' is no key column\n  fix: did you mean 'region'?"),
        ({"id": 1, "region": "eu", "name": "x"}, "'name' is no key column"),
        ("id=1,id=2,region=eu", "the key column 'id' has two values"),
    ],
)
def test_wrong_key_is_rejected_with_the_fix(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_key(given, ["id", "region"])
    assert message in str(raised.value)
