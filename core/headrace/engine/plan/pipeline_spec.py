"""Plugins and options of a pipeline, and the plan that is built from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from headrace.config.addresses import find_file_systems
from headrace.config.arguments import check_arguments
from headrace.config.model import NO_FORMAT, TableRule, Tags
from headrace.config.redaction import Redaction
from headrace.config.renewal import Renewal
from headrace.config.settings import Settings
from headrace.config.sink_names import name_sinks
from headrace.config.view_rule import ViewRule
from headrace.config_errors import as_config_error
from headrace.dead_letters.table_store import choose_dead_letter_table
from headrace.engine.plan.column_tags import ColumnTags
from headrace.engine.plan.dialect_choice import choose_dialects
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.plan.view_plan import check_selections, plan_views
from headrace.errors import ConfigError
from headrace.registry.plugin_registry import registry
from headrace.sdk.config import option_text
from headrace.sdk.dialect import Dialect
from headrace.sdk.format import Format
from headrace.sdk.observer import Observer
from headrace.sdk.sink import Sink
from headrace.sdk.source import Source
from headrace.sdk.transform import Transform
from headrace.secret_values import find_secrets, wrap_secrets

Rule = TypeVar("Rule", TableRule, ViewRule)

#: Types of the arguments that Python does not check, and of the items of lists.
_ARGUMENTS = {
    "name": str,
    "source": Source,
    "checkpoint": str,
    "spark": Mapping,
    "tags": Mapping,
    "settings": Settings,
    "value": Format,
}

_LISTS = {
    "sinks": Sink,
    "transforms": Transform,
    "dialects": Dialect,
    "observers": Observer,
    "tables": object,
    "views": object,
}


@dataclass
class PipelineSpec:
    """Plugins and options of a pipeline.

    ``value`` and ``key`` are the formats of a source that yields bytes; a key without a format is read like the value, and
    ``"none"`` is not read.
    """

    name: str
    source: Source
    sinks: Sequence[Sink]
    checkpoint: str
    tables: Sequence[TableRule | Mapping[str, Any]] = ()
    transforms: Sequence[Transform] = ()
    #: Dialects with options, and dialects of other distributions. headrace's own, and those of source and formats, are always active.
    dialects: Sequence[Dialect] = ()
    value: Format | None = None
    key: Format | Literal["none"] | None = None
    spark: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    #: Removes the pipeline's secrets from texts.
    redact: Redaction = field(default_factory=Redaction, repr=False)
    #: Rebuilds the pipeline of a file with references after a failed authentication.
    renewal: Renewal | None = field(default=None, repr=False)
    #: Tag → names or globs of columns, with or without a table.
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Tables that SQL computes from tables of the pipeline.
    views: Sequence[ViewRule | Mapping[str, Any]] = ()
    #: Observers of the pipeline's runs.
    observers: Sequence[Observer] = ()

    def __post_init__(self) -> None:
        check_arguments(vars(self), _ARGUMENTS, _LISTS)
        if self.key != NO_FORMAT:
            check_arguments(vars(self), {"key": Format})
        if not self.sinks:
            raise ConfigError("the pipeline has no sink", fix="add at least one")
        if self.source.yields_records and self.value is None:
            raise ConfigError(
                f"the source {self.source.name!r} yields bytes, and no format decodes them",
                fix="add `value: {json: {}}` next to it",
            )
        if not self.source.yields_records and (self.value is not None or self.key is not None):
            raise ConfigError(
                f"the source {self.source.name!r} decodes its records itself, and does not use `value:` and `key:`",
                fix="remove them next to it",
            )
        self.tags = _check_tags(self.tags)
        for _, secret in find_secrets(self.spark):
            self.redact.add(secret)
        self.spark = wrap_secrets(self.spark)

    def build_plan(self) -> Plan:
        """Build the plan: choose dialects and file systems, make routes of the table rules, and register secrets for redaction."""
        formats = [item for item in (self.value, self.key) if isinstance(item, Format)]
        dialects, fallback_dialects = choose_dialects(registry(), self.dialects, [self.source, *formats])
        key = self.key or (self.value if self.source.yields_records else None)
        rules = [_build_rule(TableRule, "tables", number, rule) for number, rule in enumerate(self.tables)]
        view_rules = [_build_rule(ViewRule, "views", number, rule) for number, rule in enumerate(self.views)]
        names = name_sinks(self.sinks)
        views = plan_views(view_rules, rules, names)
        check_selections(views, self.transforms, self.tags)
        plan = Plan(
            name=self.name,
            source=self.source,
            sinks=tuple(self.sinks),
            sink_names=names,
            checkpoint=self.checkpoint,
            routes=Routes(rules, lambda options: options.choose_sinks(names, "tables"), [view.name for view in views]),
            views=views,
            observers=tuple(self.observers),
            dialects=dialects,
            fallback_dialects=fallback_dialects,
            transforms=tuple(self.transforms),
            tags=ColumnTags(self.tags),
            value_format=self.value,
            key_format=None if key == NO_FORMAT else key,
            spark_conf={key: option_text(value) for key, value in self.spark.items()},
            settings=self.settings,
            dead_letter_table=choose_dead_letter_table(
                self.settings.dead_letters_table,
                self.sinks,
                self.name,
                is_maintained=self.settings.maintenance.enabled,
            ),
            redact=self.redact,
            renewal=self.renewal,
        )
        for plugin in plan.all_plugins:
            for _, secret in plugin.config.secrets():
                self.redact.add(secret)
        addresses = [self.checkpoint, plan.spark_conf, *(plugin.config for plugin in plan.all_plugins)]
        return replace(plan, file_systems=find_file_systems(registry(), *addresses))


def _check_tags(tags: Mapping[str, Any]) -> Tags:
    try:
        return TypeAdapter(Tags).validate_python(tags)
    except ValidationError as error:
        raise as_config_error(error, lambda loc: ".".join(map(str, ("Pipeline, tags", *loc)))) from None


def _build_rule(model: type[Rule], key: str, number: int, rule: Rule | Mapping[str, Any]) -> Rule:
    if isinstance(rule, model):
        return rule
    try:
        return model.model_validate(rule)
    except ValidationError as error:
        raise as_config_error(error, lambda loc: ".".join(map(str, (f"Pipeline, {key}[{number}]", *loc)))) from None
