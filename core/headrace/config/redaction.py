"""Redaction of secrets in texts, in all common encodings.

The second net: what headrace shows itself are values that know they are secrets (``headrace.secret_values``).
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import yaml

from headrace.secret_values import HIDDEN, hide_credentials

#: Minimum length of a secret that is redacted anywhere. Redacting a secret of one letter would make text unreadable and reveal it.
LONG = 4
#: Minimum length of a part of a base64 string that is redacted.
MIN_BASE64 = 6


class Redaction:
    """Replacement of all added secrets in texts."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, secret: str) -> None:
        """Add a secret; an empty string is ignored."""
        if secret:
            self._forms.update(_list_spellings(str(secret)))
            # Longest first: a secret may start with a shorter one.
            forms = sorted(self._forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_build_expression, forms)))

    def __call__(self, text: str) -> str:
        """Return the text with asterisks in place of secrets, and of the logins of quoted requests."""
        return hide_credentials(self._pattern.sub(HIDDEN, text) if self._pattern else text)


def _list_spellings(secret: str) -> Iterator[str]:
    """Yield a secret, its lines, and its encodings in JSON, Python, YAML, HTML, URLs and base64."""
    lines = [line.strip() for line in secret.splitlines()]
    for text in (secret, *(line for line in lines if len(line) >= LONG)):
        in_json = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
        yield text
        yield from in_json
        yield from (json.dumps(written)[1:-1] for written in in_json)  # JSON in JSON
        for is_whole in (True, False):
            yield yaml.safe_dump(text, default_style='"', width=float("inf"), allow_unicode=is_whole)[1:-2]
        yield from (repr(text)[1:-1], text.replace("\\", "\\\\"), text.replace("'", "''"), html.escape(text))
        yield from _list_base64(text)
        for in_url in (quote(text), quote(text, safe=""), quote_plus(text)):
            yield from (in_url, re.sub("%..", lambda code: code[0].lower(), in_url))


def _list_base64(secret: str) -> Iterator[str]:
    """Yield the base64 of a secret at each position in a longer text, such as ``user:password``.

    The characters that also depend on its neighbors are left out.
    """
    data = secret.encode("utf-8", "surrogateescape")
    for before in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            encoded = encode(b"\0" * before + data).decode().rstrip("=")
            core = encoded[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
            if len(core) >= MIN_BASE64:
                yield core


def _build_expression(form: str) -> str:
    """Return a pattern for a form of a secret. A short form matches only in quotes, after ``=``, and as the password of a URL."""
    text = re.escape(form)
    if len(form) >= LONG:
        return text
    return rf"(?<=\"){text}(?=\")|(?<='){text}(?=')|(?<==){text}(?!\w)|(?<=:){text}(?=@)"
