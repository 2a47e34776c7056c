"""Kubernetes resources: validation with Kubernetes' own schemas, and patches as kustomize applies them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from tests.support.dist import ROOT

_SCHEMAS = json.loads((ROOT / "tests/data/kubernetes/definitions.json").read_text(encoding="utf-8"))


def find_schema_errors(definition: str, data: Any) -> list[str]:
    """Return the errors of data that must match a definition such as ``StatefulSet``. Unknown keys are errors."""
    validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{definition}", **_SCHEMAS})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(data)]


def merge(target: Any, patch: Any) -> Any:
    """Return a target with a JSON merge patch (RFC 7386), as kustomize patches custom resources."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def list_secret_variables(container: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each variable of a container as its name, and the name and key of its Secret. Values in plain text are errors."""
    for variable in container["env"]:
        reference = variable["valueFrom"]["secretKeyRef"]
        yield variable["name"], reference["name"], reference["key"]
