"""Interface of schema registries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

#: What a schema describes, as registries name it.
SchemaType = Literal["AVRO", "JSON"]


class SchemaRegistry(ABC):
    """Schemas by the ids that records carry."""

    @abstractmethod
    def fetch_schema(self, id: str, schema_type: SchemaType) -> str:  # noqa: A002 - the registries' word
        """Return the schema of an id, which may name its kind: ``contentId/7``.

        RetriableError when the registry does not respond, ConfigError when it rejects the credentials, DataError when it has no
        such schema, or one of another type.
        """

    @abstractmethod
    def describe_size(self) -> str:
        """Return how many schemas the credentials can read, in words."""
