"""Redaction of secrets in foreign strings, in every common encoding."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from headrace.config.redaction import Redaction

ODD = 'C:\\new "words"\nof ü & <it\'s> 100%'


def redaction(*secrets: str) -> Redaction:
    made = Redaction()
    for secret in secrets:
        made.add(secret)
    return made


@pytest.mark.parametrize(
    "written",
    [
        ODD,
        repr(ODD),
        json.dumps({"password": ODD}),
        json.dumps({"password": ODD}, ensure_ascii=False),
        json.dumps(json.dumps({"password": ODD})),
        yaml.safe_dump({"password": ODD}, width=1000),
        f"https://me:{quote(ODD, safe='')}@host/",
        f"https://host/?p={quote_plus(ODD)}",
        f"https://host/?p={re.sub('%..', lambda code: code[0].lower(), quote(ODD))}",
        html.escape(ODD),
        ODD.splitlines()[0],
        f"the key\n    {ODD.splitlines()[1]}\nis none",
    ],
)
def test_secret_with_special_characters_is_redacted_in_every_encoding(written: str) -> None:
    text = redaction(ODD)(written)
    assert "******" in text
    assert not any(word in text.lower() for word in ("words", "new", "it's", "100"))


@pytest.mark.parametrize("secret", ["a", "7", "*", "ab", "no"])
def test_short_secret_leaves_the_surrounding_text_readable(secret: str) -> None:
    clean = redaction(secret)
    sentence = f"a record of 7 is no table: '{secret}x' * ab=1"
    assert clean(sentence) == sentence
    assert clean(f"password={secret}, 'x', '{secret}' of https://me:{secret}@host") == (
        "password=******, 'x', '******' of https://me:******@host"
    )


def test_longer_secret_with_the_same_prefix_is_redacted_completely() -> None:
    assert redaction("abcd", "abcd-and-more")("abcd-and-more, xabcdy") == "******, x******y"


@settings(max_examples=50)
@given(st.lists(st.text(min_size=4), min_size=1), st.text())
def test_no_long_secret_remains(secrets: list[str], between: str) -> None:
    text = redaction(*secrets)("\N{BULLET}".join(secrets)).replace("******", "")
    assert all(secret not in text for secret in secrets if "\N{BULLET}" not in secret)
