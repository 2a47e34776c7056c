"""The base of every config model: unknown keys are refused, options of others pass through under their own names."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from headrace.sdk.secrets import Secret, find_secrets, keep_secrecy, keep_secrets, mark_secrets, values_by_key


class Config(BaseModel):
    """A block of the pipeline file.

    Keys that match a pattern in ``passthrough`` (``"write.*"``) are kept as they are and given by ``options``.
    """

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, arbitrary_types_allowed=True)

    passthrough: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def keys(cls) -> list[str]:
        """The names a user may write, as they are written in the file."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if data is None:
            return {}
        if not isinstance(data, dict):
            return data
        known, patterns = {*cls.keys(), *cls.model_fields}, cls.passthrough_patterns(data)
        for key in data:
            if key not in known and not any(fnmatchcase(str(key), pattern) for pattern in patterns):
                names = [*cls.keys(), *(p for p in patterns if "*" not in p)]
                raise PydanticCustomError("unknown_key", "unknown key {key}", {"key": str(key), "known": names})
        return data

    @model_validator(mode="wrap")
    @classmethod
    def _keep_secrets(cls, data: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        made = make(data)
        if isinstance(data, Mapping):
            for name, field in cls.model_fields.items():
                given = data.get(field.alias or name, data.get(name))
                made.__dict__[name] = keep_secrets(made.__dict__[name], given)
        return made

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, mark_secrets(value, name or "")) for name, value in super().__repr_args__()]

    @classmethod
    def passthrough_patterns(cls, data: Mapping[str, Any]) -> Collection[str]:  # noqa: ARG003 - a model whose keys decide overrides it
        """The patterns of keys that pass through, in a block that holds ``data``."""
        return cls.passthrough

    def options(self) -> dict[str, str]:
        """The keys that passed through, as text, as Spark's options want them; those without a value are left out."""
        return {key: option_text(value) for key, value in (self.model_extra or {}).items() if value is not None}

    def secrets(self) -> list[tuple[str, str]]:
        """The secrets of the block, at any depth, with their keys."""
        return list(find_secrets(values_by_key(self)))


def option_text(value: Any) -> str:
    """A YAML value as the text that Spark and table formats expect: booleans in lower case, lists with commas.

    A mapping becomes JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, SecretStr):
        return Secret(value.get_secret_value())
    if isinstance(value, Mapping):
        return keep_secrecy(json.dumps(value), *value.values())
    if isinstance(value, list | tuple):
        items = [option_text(item) for item in value]
        return keep_secrecy(",".join(items), *items)
    return str(value).lower() if isinstance(value, bool) else str(value)
