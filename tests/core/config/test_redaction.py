"""Redaction of secrets in foreign strings, in every common encoding."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
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


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "registry-user"])
def test_base64_of_a_secret_is_redacted(user: str) -> None:
    secret = "s3cr3t-p4ssw0rd/ü?>"
    for encode in (b64encode, urlsafe_b64encode):
        login = encode(f"{user}:{secret}".encode()).decode()
        shown = redaction(secret)(f"rejected login {login}")
        assert "******" in shown
        assert len(shown.split()[-1].replace("*", "")) <= len(encode(f"{user}:".encode())) + 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ******"),
        ('{"authorization":"Bearer abc.def.123456789012"}', '{"authorization":"Bearer ******"}'),
        ("Proxy-Authorization = dXNlcjpwYXNz1", "Proxy-Authorization = ******"),
        ("rejected: Basic dXNlcjpwYXNzd, cut", "rejected: Basic ******, cut"),
        ("rejected: Basic dXNlcjpwYXNz, retry", "rejected: Basic ******, retry"),
        ("Bearer eyJhbGciOiJIUzI1NiJ9.e30.x1 is invalid", "Bearer ****** is invalid"),
        ("https://me:pass@host/x and http://:pass@host", "https://me:******@host/x and http://:******@host"),
        ("https://me:p/ss@word@host:80/x", "https://me:******@host:80/x"),
        ("git+https://ghp_0123456789abcdefghij@host/x", "git+https://******@host/x"),
    ],
)
def test_logins_of_quoted_requests_are_hidden_without_known_secrets(text: str, shown: str) -> None:
    assert Redaction()(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Basic authentication required",
        "TopicAuthorizationException: Not authorized to access topics: [orders]",
        "Bearer authentication is not configured",
        "authorization: denied",
        "https://host:8081/subjects and me@example.org",
        "https://host:8081/users/me@example.org",
        "abfss://a-container-with-a-long-name@account.dfs.core.windows.net/x",
    ],
)
def test_text_about_logins_stays(text: str) -> None:
    assert Redaction()(text) == text


def test_longer_secret_with_the_same_prefix_is_redacted_completely() -> None:
    assert redaction("abcd", "abcd-and-more")("abcd-and-more, xabcdy") == "******, x******y"


@settings(max_examples=50)
@given(st.lists(st.text(min_size=4), min_size=1), st.text())
def test_no_long_secret_remains(secrets: list[str], between: str) -> None:
    text = redaction(*secrets)("\N{BULLET}".join(secrets)).replace("******", "")
    assert all(secret not in text for secret in secrets if "\N{BULLET}" not in secret)
