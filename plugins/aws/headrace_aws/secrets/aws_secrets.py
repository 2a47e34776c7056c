"""Secrets in AWS: ``${secretManager:NAME}``, ``${secretManager:NAME:KEY}`` and ``${ssm:/PATH}``.

A name can be an ARN, which contains the region. Otherwise the region comes from the environment or the profile. Values are
cached for five minutes, so ten keys of one secret need one request.
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
    """Return a secret of Secrets Manager, or one key of its JSON object. LookupError if it does not exist."""
    name, key, region = _parse(reference)
    text = fetch_cached(f"secretManager:{name}", lambda: _read_secret(name, region))
    return _pick(text, key, name) if key else text


def from_parameter_store(reference: str) -> str:
    """Return a decrypted parameter of Systems Manager. LookupError if it does not exist."""
    _, _, region = _parse(reference)
    return fetch_cached(f"ssm:{reference}", lambda: _read_parameter(reference, region))


def _parse(reference: str) -> tuple[str, str, str | None]:
    """Split a reference into the name or ARN, the key (empty without one), and the region of an ARN."""
    if match := _ARN.fullmatch(reference):
        return match[1], match["key"] or "", match["region"]
    name, _, key = reference.partition(":")
    return name, key, None


def _read_secret(name: str, region: str | None) -> str:
    client = make_client("secretsmanager", region)
    place = f"Secrets Manager, {client.meta.region_name}"
    what = f"secret {name!r}"
    response = _call(client.get_secret_value, "secretsmanager:GetSecretValue", place, what, "VersionId", SecretId=name)
    if "SecretString" not in response:
        raise LookupError(f"{place}: the {what} is binary, not a string")
    return str(response["SecretString"])


def _read_parameter(name: str, region: str | None) -> str:
    client = make_client("ssm", region)
    place = f"parameter store, {client.meta.region_name}"
    what = f"parameter {name!r}"
    response = _call(client.get_parameter, "ssm:GetParameter", place, what, "Parameter", Name=name, WithDecryption=True)
    return str(response["Parameter"]["Value"])


def _call(
    operation: Callable[..., Any], action: str, place: str, what: str, member: str, **parameters: Any
) -> dict[str, Any]:
    """Return a response with the field ``member``. LookupError for a missing secret; other errors are translated."""
    try:
        response: dict[str, Any] = operation(**parameters)
        response[member]
    except Exception as error:
        if error_code(error) in ("ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound"):
            raise LookupError(f"{place}: no such {what}") from None
        raise explain_error(error, action, where=f"{place}, {what}") from error
    return response


def _pick(text: str, key: str, name: str) -> str:
    """Return the value of a key of a JSON secret. Errors never contain the secret."""
    values = _parse_object(text)
    if values is None:
        raise LookupError(f"the secret {name!r} is not a JSON object and has no keys: write ${{secretManager:{name}}}")
    if key not in values:
        raise LookupError(f"the secret {name!r} has no key {key!r}; {did_you_mean(key, values)}")
    value = values[key]
    return value if isinstance(value, str) else json.dumps(value)


def _parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; None for any other string."""
    try:
        values = json.loads(text)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None
