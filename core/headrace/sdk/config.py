"""Base of all config models: it rejects unknown keys and passes options of other systems through."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from pydantic import ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from headrace.secret_values import SecretsModel, propagate_secret


class Config(SecretsModel):
    """Block of the pipeline file. The docstring below a field describes the option in docs/options.md and the JSON Schema.

    Keys that match a pattern in ``passthrough`` (``"write.*"``) are kept unchanged; ``options`` returns them. Keys in ``explained``
    are rejected with their own message.
    """

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,  # a misspelled option may hold a secret
    )

    passthrough: ClassVar[tuple[str, ...]] = ()
    #: Options that belong elsewhere → message and fix.
    explained: ClassVar[Mapping[str, tuple[str, str]]] = {}

    @classmethod
    def keys(cls) -> list[str]:
        """Return the option names as the pipeline file has them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def plugin_blocks(cls) -> dict[str, str]:
        """Return key → kind of the plugin that it holds: fields with ``json_schema_extra={"x-plugin-block": kind}``."""
        blocks = {}
        for name, field in cls.model_fields.items():
            if isinstance(extra := field.json_schema_extra, dict) and "x-plugin-block" in extra:
                blocks[field.alias or name] = str(extra["x-plugin-block"])
        return blocks

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_keys(cls, data: Any) -> Any:
        data = {} if data is None else data
        if not isinstance(data, dict):
            return data
        known, patterns = {*cls.keys(), *cls.model_fields}, cls.passthrough_patterns(data)
        for key in data:
            if key not in known and not any(fnmatchcase(str(key), pattern) for pattern in patterns):
                if key in cls.explained:
                    what, fix = cls.explained[key]
                    raise PydanticCustomError("explained_key", "{what}", {"key": key, "what": what, "fix": fix})
                names = [*cls.keys(), *(p for p in patterns if "*" not in p)]
                raise PydanticCustomError("unknown_key", "unknown key {key}", {"key": str(key), "known": names})
        return data

    @classmethod
    def passthrough_patterns(cls, data: Mapping[str, Any]) -> Collection[str]:  # noqa: ARG003 - overridden by models whose keys decide
        """Return the patterns of keys that pass through, in a block that holds ``data``."""
        return cls.passthrough

    def options(self) -> dict[str, str]:
        """Return the keys that passed through, as strings for Spark's options, without those that have no value."""
        return {key: option_text(value) for key, value in (self.model_extra or {}).items() if value is not None}


def option_text(value: Any) -> str:
    """Return a YAML value as the string that Spark and table formats expect: booleans in lower case, lists with commas.

    A mapping becomes JSON. A value that contains a secret becomes a secret.
    """
    if isinstance(value, Mapping):
        return propagate_secret(json.dumps(value), value)
    if isinstance(value, list | tuple):
        return propagate_secret(",".join(option_text(item) for item in value), value)
    return str(value).lower() if isinstance(value, bool) else propagate_secret(str(value), value)
