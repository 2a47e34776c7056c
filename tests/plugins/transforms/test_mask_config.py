"""Errors of the options of the transform ``mask``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from headrace import ConfigError
from headrace.sdk import Changes
from headrace_transforms import Mask


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"email": "sha256"}, 'write `columns: {email: {sha256: {salt: "${env:SALT}"}}}`'),
        ({"email": {"truncate": 3}}, "write `columns: {email: {truncate: 3}}`"),
        ({"columns": {"email": "sha256"}}, "'sha256' has no options: write `{sha256: {salt: \"${env:SALT}\"}}`"),
        (
            {"columns": {"email": {"sha512": None}}},
            "'sha512' has no options: write `{sha512: {salt: \"${env:SALT}\"}}`",
        ),
        ({"columns": {"email": "hmac_sha256"}}, 'write `{hmac_sha256: {key: "${env:KEY}"}}`'),
        ({"columns": {"email": "nullify"}}, "write `{nullify: true}`"),
        ({"columns": {"email": {"sha256": {}}}}, "'salt' is missing"),
        ({"email": 5}, "unknown key 'email'"),
    ],
)
def test_rule_without_its_options_names_the_complete_rule(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Mask(options)
    assert message in str(raised.value)


class CountingFrame:
    """DataFrame without rows that counts how often its columns are listed: PySpark builds the list each time."""

    def __init__(self, names: list[str]) -> None:
        self.schema = StructType([StructField(name, StringType()) for name in names])
        self.sparkSession = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "false"))
        self.listed = 0

    @property
    def columns(self) -> list[str]:
        self.listed += 1
        return list(self.schema.names)


@pytest.mark.parametrize("count", [10, 100])
def test_planning_does_not_list_the_columns_for_each_rule(count: int) -> None:
    frame = CountingFrame([f"c{number}" for number in range(count)])
    mask = Mask(columns={name: {"nullify": True} for name in frame.schema.names})
    hidden = mask.hides(Changes(cast("Any", frame), envelope=False, table="shop.orders"))
    assert hidden == dict.fromkeys(frame.schema.names, "nullify")
    assert frame.listed < 10
