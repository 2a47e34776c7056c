"""Secrets that AWS keeps: ``${secretManager:NAME}``, ``${secretManager:NAME:KEY}`` and ``${ssm:/PATH}``.

Names may be ARNs, which say their region; else the region is that of the environment or the profile. A value is kept for five
minutes, so that ten keys of one secret are one question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from headrace.sdk.options import did_you_mean
from headrace.sdk.secrets import fetch_cached
from headrace_aws.clients import error_code, explain_error, make_client

_ARN = re.compile(
    r"(arn:[\w-]+:(?:secretsmanager|ssm):(?P<region>[\w-]+):\d*:(?:secret:[^:]+|parameter[^:]+))(?::(?P<key>.*))?"
)


def from_secrets_manager(reference: str) -> str:
    """A secret of Secrets Manager, whole or one key of its JSON. LookupError when it has none."""
    name, key, region = _parse(reference)
    text = fetch_cached(f"secretManager:{name}", lambda: _read_secret(name, region))
    return _pick(text, key, name) if key else text


def from_parameter_store(reference: str) -> str:
    """A parameter of the Systems Manager, decrypted. LookupError when there is none."""
    _, _, region = _parse(reference)
    return fetch_cached(f"ssm:{reference}", lambda: _read_parameter(reference, region))


def _parse(reference: str) -> tuple[str, str, str | None]:
    """Name or ARN of a secret or a parameter, the key in it or an empty text, and the region where the ARN has one."""
    if match := _ARN.fullmatch(reference):
        return match[1], match["key"] or "", match["region"]
    name, _, key = reference.partition(":")
    return name, key, None


def _read_secret(name: str, region: str | None) -> str:
    client = make_client("secretsmanager", region)
    place = f"Secrets Manager, {client.meta.region_name}"
    what = f"secret {name!r}"
    answer = _ask(client.get_secret_value, "secretsmanager:GetSecretValue", place, what, "VersionId", SecretId=name)
    if "SecretString" not in answer:
        raise LookupError(f"{place}: the {what} is binary, and not a text")
    return str(answer["SecretString"])


def _read_parameter(name: str, region: str | None) -> str:
    client = make_client("ssm", region)
    place = f"parameter store, {client.meta.region_name}"
    what = f"parameter {name!r}"
    answer = _ask(client.get_parameter, "ssm:GetParameter", place, what, "Parameter", Name=name, WithDecryption=True)
    return str(answer["Parameter"]["Value"])


def _ask(
    operation: Callable[..., Any], action: str, place: str, what: str, member: str, **parameters: Any
) -> dict[str, Any]:
    """The answer, which has ``member`` in it; LookupError for what is not there, and an error in words for the rest."""
    try:
        answer: dict[str, Any] = operation(**parameters)
        answer[member]
    except Exception as error:
        if error_code(error) in ("ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound"):
            raise LookupError(f"{place}: there is no {what}") from None
        raise explain_error(error, action, where=f"{place}, {what}") from error
    return answer


def _pick(text: str, key: str, name: str) -> str:
    """The value of a key of a secret that is a JSON object. No error has the text in it."""
    values = _parse_object(text)
    if values is None:
        raise LookupError(f"the secret {name!r} is no JSON object: it has no keys, write ${{secretManager:{name}}}")
    if key not in values:
        raise LookupError(f"the secret {name!r} has no key {key!r}; {did_you_mean(key, values)}")
    value = values[key]
    return value if isinstance(value, str) else json.dumps(value)


def _parse_object(text: str) -> dict[str, Any] | None:
    """A JSON object; None when it is none."""
    try:
        values = json.loads(text)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None
