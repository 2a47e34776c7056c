"""Errors of the options of the transform ``mask``."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError
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
