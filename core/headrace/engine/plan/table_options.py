"""Options of single tables, from the rules of ``tables:``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from headrace.config.written_options import describe_block, is_of_whole_block, list_attributes, replace_options
from headrace.config_errors import as_config_error
from headrace.errors import ConfigError
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from headrace.config.model import TableRule
    from headrace.config.settings import Settings
    from headrace.config.view_rule import ViewRule
    from headrace.sdk.sink import Sink


class IncompleteOptionsError(ConfigError):
    """The options of a rule are invalid without those of another rule."""


@dataclass(frozen=True, eq=False)
class TableOptions:
    """Options that replace those of the sinks and of the pipeline for some tables. One object for all tables with the same rules."""

    #: Names of the sinks that receive the tables; None: all.
    sinks: tuple[str, ...] | None = None
    #: Name of a sink → its options.
    sink_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Attribute of ``Settings`` → value, or options of the nested model or mapping.
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_rules(cls, rules: Sequence[TableRule]) -> TableOptions | None:
        """Return the options of the rules that match a topic: of each option, the first one. None without any option.

        ConfigError for options of a sink that does not receive the table.
        """
        _check_used(rules)
        names = {name for rule in rules for name in rule.sink}
        maintenance = _first_of_each(list_attributes(rule.maintenance) for rule in rules if rule.maintenance)
        retention = next((rule.delete_retention for rule in rules if rule.delete_retention is not None), None)
        settings = {
            "maintenance": maintenance,
            "dead_letters": _first_of_each(rule.dead_letters for rule in rules),
            "delete_retention": retention,
        }
        made = cls(
            next((tuple(sorted(rule.sinks)) for rule in rules if rule.sinks is not None), None),
            {name: _first_of_each(rule.sink.get(name, {}) for rule in rules) for name in sorted(names)},
            {name: value for name, value in settings.items() if value},
        )
        return made if made.sinks is not None or made.sink_options or made.settings else None

    @classmethod
    def of_view(cls, view: ViewRule) -> TableOptions | None:
        """Return the options of a view; None without any option."""
        settings = {"maintenance": list_attributes(view.maintenance)} if view.maintenance else {}
        sinks = None if view.sinks is None else tuple(sorted(view.sinks))
        return cls(sinks, view.sink, settings) if sinks is not None or view.sink or settings else None

    def choose_sinks(self, names: Mapping[Sink, str], where: str) -> dict[Sink, str]:
        """Return the sinks that receive the tables, with their options for them, and their names.

        ``names``: the sinks of the pipeline. ConfigError for an unknown sink or an invalid option.
        """
        for name in (*(self.sinks or ()), *self.sink_options):
            if name not in names.values():
                fix = did_you_mean(name, names.values())
                raise ConfigError(f"the pipeline has no sink {name!r}", where=where, fix=fix)
        chosen = {sink: name for sink, name in names.items() if self.sinks is None or name in self.sinks}
        return {
            _with_options(sink, self.sink_options.get(name, {}), f"{where}.sink.{name}"): name
            for sink, name in chosen.items()
        }

    def change_settings(self, settings: Settings) -> Settings:
        """Return the settings of the pipeline with those of the tables."""
        changes: dict[str, Any] = dict(self.settings)
        if "maintenance" in changes:
            changes["maintenance"] = settings.maintenance.model_copy(update=changes["maintenance"])
        if "dead_letters" in changes:
            changes["dead_letters"] = {**settings.dead_letters, **changes["dead_letters"]}
        return settings.model_copy(update=changes)


def describe_sinks(names: Mapping[Sink, str]) -> str:
    """Return the options of sinks that differ from their defaults, in the notation of the pipeline file."""
    return ", ".join(f"{name}: {{{describe_block(sink.config)}}}" for sink, name in names.items())


def describe_settings(settings: Settings) -> str:
    """Return the settings that a rule may have for its tables, in the notation of the pipeline file."""
    rules = ", ".join(f"{reason}: {policy}" for reason, policy in settings.dead_letters.items())
    texts = {
        "maintenance": describe_block(settings.maintenance),
        "dead.letters": rules,
    }
    blocks = [f"{key}: {{{text}}}" for key, text in texts.items() if text]
    return ", ".join([*blocks, f"delete.retention: {settings.delete_retention}"])


def _with_options(sink: Sink, options: Mapping[str, Any], where: str) -> Sink:
    if not options:
        return sink
    try:
        changed = type(sink)(replace_options(sink.config, options))
    except ValidationError as error:
        found = as_config_error(error, lambda loc: ".".join(map(str, (where, *loc))))
        kind = IncompleteOptionsError if is_of_whole_block(error) else ConfigError
        raise kind(found.what, where=found.where, fix=found.fix) from None
    if _whole_sink(changed) != _whole_sink(sink):
        raise ConfigError(
            f"options of the whole sink cannot be set for one table: {', '.join(sorted(options))}",
            where=where,
            fix="add another sink with these options, and name the sinks of the table in `sinks:`",
        )
    return changed


def _check_used(rules: Sequence[TableRule]) -> None:
    """Raise ConfigError if the rule that sets ``sinks``, or one before it, has options for a sink that it leaves out."""
    number = next((number for number, rule in enumerate(rules) if rule.sinks is not None), None)
    if number is None:
        return
    sinks = rules[number].sinks or ()
    if unused := {name for rule in rules[: number + 1] for name in rule.sink if name not in sinks}:
        raise ConfigError(
            f"a rule has options for the sink {min(unused)!r}, and `sinks: [{', '.join(sinks)}]` of the rule for "
            f"{rules[number].source!r} leaves the sink out",
            where="tables",
            fix="name the sink in `sinks:` of the rule with the options, or remove the options",
        )


def _whole_sink(sink: Sink) -> tuple[Any, ...]:
    """Return everything that a sink has in common for all its tables: name, folder or catalog, settings of the session, and inner plugins."""
    return sink.config.name, sink.place(), sink.session_conf(), [(type(part), part.config) for part in sink.parts()]


def _first_of_each(mappings: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for mapping in mappings:
        found = {**mapping, **found}
    return found
