"""Responses of Kafka Connect's REST API: the parts that headrace reads."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Answer(BaseModel):
    """Part of a response; other fields stay as they are."""

    model_config = ConfigDict(extra="allow")


class PluginAnswer(_Answer):
    """Plugin of a worker."""

    class_name: str = Field(alias="class")


class _Definition(_Answer):
    name: str
    type: str = ""


class _Value(_Answer):
    name: str
    errors: list[str]


class _Option(_Answer):
    definition: _Definition | None = None
    value: _Value | None = None


class ValidationAnswer(_Answer):
    """Validation of a configuration."""

    error_count: int = 0
    configs: list[_Option]


class _ConnectorState(_Answer):
    state: str
    worker_id: str = ""
    trace: str | None = None


class _TaskState(_Answer):
    id: int
    state: str
    trace: str | None = None


class StatusAnswer(_Answer):
    """Status of a connector and its tasks."""

    connector: _ConnectorState
    tasks: list[_TaskState]


class OffsetsAnswer(_Answer):
    """Offsets of a connector."""

    offsets: list[dict[str, Any]]
