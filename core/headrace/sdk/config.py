"""Base of all config models: it rejects unknown keys and passes options of other systems through."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from headrace.config_errors import find_other_errors
from headrace.secret_values import SecretsModel, propagate_secret


class Config(SecretsModel):
    """Block of the pipeline file. The docstring below a field describes the option in docs/options.md and the JSON Schema.

    Keys that match a pattern in ``passthrough`` (``"write.*"``) are kept unchanged; ``options`` returns them. Keys in ``explained``
    are rejected with their own message, also if a pattern matches them.
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

    @model_validator(mode="wrap")
    @classmethod
    def _reject_unknown_keys(cls, data: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        data = {} if data is None else data
        if not isinstance(data, dict) or not (wrong := cls._find_wrong_keys(data)):
            return make(data)
        others = find_other_errors(make, {key: value for key, value in data.items() if key not in wrong})
        raise ValidationError.from_exception_data(cls.__name__, [*wrong.values(), *others], hide_input=True)

    @classmethod
    def _find_wrong_keys(cls, data: Mapping[Any, Any]) -> dict[Any, InitErrorDetails]:
        """Return the errors of keys that the block does not accept. ``explained`` keys are errors even if a pattern matches."""
        known, patterns = {*cls.keys(), *cls.model_fields}, cls.passthrough_patterns(data)
        names = [*cls.keys(), *(p for p in patterns if "*" not in p)]
        found: dict[Any, InitErrorDetails] = {}
        for key in data:
            if key in known:
                continue
            if explanation := cls.explain_key(key, data[key]):
                what, fix = explanation
                error = PydanticCustomError("explained_key", "{what}", {"key": key, "what": what, "fix": fix})
            elif any(fnmatchcase(str(key), pattern) for pattern in patterns):
                continue
            else:
                error = PydanticCustomError("unknown_key", "unknown key {key}", {"key": str(key), "known": names})
            found[key] = InitErrorDetails(type=error, input=None)
        return found

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:  # noqa: ARG003 - overridden by models whose values decide
        """Return message and fix for a key that is not an option; None if the key has no message of its own."""
        return cls.explained.get(key)

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
