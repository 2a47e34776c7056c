"""Construction of a pipeline and its plugins from a document, with lines in all errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from headrace.config.command_blocks import list_block_commands
from headrace.config.model import NO_FORMAT, PipelineConfig, TableRule
from headrace.config.observer_blocks import find_observers
from headrace.config.references import PROVIDERS, Resolver
from headrace.config.renewal import Renewal
from headrace.config.sink_names import name_sinks
from headrace.config.view_rule import ViewRule
from headrace.config.written_options import is_of_whole_block, replace_options
from headrace.config_errors import PlacedError, join_problems
from headrace.errors import ConfigError, HeadraceError, PluginError
from headrace.registry.hook_results import check_strings
from headrace.registry.plugin_errors import as_plugin_error
from headrace.registry.plugin_registry import PluginRegistry, registry
from headrace.sdk.plugin_block import parse_plugin_block
from headrace.sdk.secrets import SecretProvider
from headrace.secret_cache import clear_cache
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from headrace.config.yaml_document import Document
    from headrace.sdk.plugin import Plugin
    from headrace.sdk.sink import Sink
    from headrace.sdk.transform import Transform

Built = TypeVar("Built")


def build(
    document: Document, make: Callable[..., Built], options: Mapping[str, Mapping[str, Any]] | None = None
) -> Built:
    """Build the document's pipeline with ``make``, which takes the arguments of ``headrace.Pipeline``.

    ``options``: key of a block → options that replace those of the block. A missing block is added.
    """
    return _Builder(_replace_options(document, options or {})).build(make)


def _replace_options(document: Document, options: Mapping[str, Mapping[str, Any]]) -> Document:
    if not options or not isinstance(document.data, dict):
        return document
    blocks = {key: document.data.get(key) or {} for key in options}
    valid = {key: {**block, **options[key]} for key, block in blocks.items() if isinstance(block, dict)}
    return replace(document, data={**document.data, **valid})


def _list_tags(transform: Transform) -> list[str]:
    with as_plugin_error(f"tags of the transform {transform.name!r}"):
        found = transform.tags()
    return check_strings(transform, "tags", found)


class _Builder:
    """Builder of the plugins that a document names, with lines in all errors."""

    def __init__(self, document: Document) -> None:
        self._registry = registry()
        self._problems: list[HeadraceError] = []
        self._resolver = Resolver(SecretProviders(self._registry))
        self._written = _omit_command_blocks(document.data if document.data is not None else {})
        data, self._missing = self._resolver.resolve_known(self._written, document.where)
        self._document = replace(document, data=data)

    def build(self, make: Callable[..., Built]) -> Built:
        try:
            return self._build(make)
        except HeadraceError as error:  # a rejected value may come from a reference
            error.redact(self._resolver.redact)
            raise

    def _renew(self, make: Callable[..., Built]) -> Built | None:
        """Return the pipeline with the current values of its references; None when they are unchanged."""
        clear_cache()
        data = self._resolver.resolve(self._written, self._document.where)
        if data == self._document.data:
            return None
        before, self._document = self._document, replace(self._document, data=data)
        try:
            return self.build(make)
        except BaseException:
            self._document = before  # The next attempt must see the change again.
            raise

    def _build(self, make: Callable[..., Built]) -> Built:
        data = self._document.data
        if not isinstance(data, dict):
            raise ConfigError(
                "a pipeline file must be a mapping of keys", where=self._document.origin, fix="start it with `name: …`"
            )
        config, failed = self._validate(data)
        plugins = self._build_plugins({key: value for key, value in data.items() if key not in failed})
        if config is not None:
            self._check_rules(config, plugins["sinks"])
            self._check_tags(config, plugins["transforms"])
        if config is None or self._problems:
            raise self._join_problems()
        references = self._resolver.references
        try:
            return make(
                name=config.name,
                checkpoint=config.checkpoint,
                tables=config.tables,
                views=config.views,
                tags=config.tags,
                spark=config.spark,
                settings=config.settings,
                redact=self._resolver.redact,
                renewal=Renewal(sorted(references), partial(self._renew, make)) if references else None,
                **plugins,
            )
        except PlacedError as error:
            raise self._document.error(error.loc, error.what, error.fix) from error.__cause__
        except ConfigError as error:
            error.at(self._document.origin)
            raise

    def _validate(self, data: dict[str, Any]) -> tuple[PipelineConfig | None, set[Any]]:
        """Return the file's model, or None; and the keys of the file with errors."""
        self._problems = [self._missing.error] if self._missing else []
        try:
            return PipelineConfig.model_validate(data), set()
        except ValidationError as error:
            self._add_problems(error)
            return None, {item["loc"][0] for item in error.errors(include_input=False) if item["loc"]}

    def _build_plugins(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of ``make`` that are plugins. Problems are collected: the blocks after one are built, too."""
        source = data.get("source", {})
        formats = [key for key in PipelineConfig.FORMAT_KEYS if key in source]
        arguments: dict[str, Any] = {key: self._collect(self._format, source[key], ("source", key)) for key in formats}
        for name in (key for key in source if key not in PipelineConfig.FORMAT_KEYS):
            arguments["source"] = self._collect(self._plugin, "source", name, source[name], ("source",))
        sinks = [(("sink",), data["sink"])] if data.get("sink") else self._items(data, "sinks")
        arguments["sinks"] = [self._collect(self._inner, "sink", block, loc) for loc, block in sinks]
        arguments["transforms"] = [
            self._collect(self._inner, "transform", block, loc) for loc, block in self._items(data, "transforms")
        ]
        arguments["dialects"] = [
            self._collect(self._plugin, "dialect", name, block, ("dialects",))
            for name, block in data.get("dialects", {}).items()
        ]
        arguments["observers"] = [
            self._collect(self._plugin, "observer", name, data[name], ())
            for name in find_observers(data, PipelineConfig.keys())
        ]
        return arguments

    @staticmethod
    def _items(data: Mapping[str, Any], key: str) -> list[tuple[tuple[Any, ...], Any]]:
        """Return the locations and values of a list's items."""
        return [((key, number), item) for number, item in enumerate(data.get(key, ()))]

    def _check_rules(self, config: PipelineConfig, sinks: Sequence[Sink | None]) -> None:
        """Add the problems of rules of ``tables:`` and of views that name unknown sinks, or have invalid options for a sink."""
        built = [sink for sink in sinks if sink is not None]
        if len(built) < len(sinks):  # A sink has a problem of its own.
            return
        by_name = {name: sink for sink, name in name_sinks(built).items()}
        rules: list[tuple[tuple[Any, ...], TableRule | ViewRule]] = []
        rules += [(("tables", number), rule) for number, rule in enumerate(config.tables)]
        rules += [(("views", number), view) for number, view in enumerate(config.views)]
        for place, rule in rules:
            names: dict[tuple[Any, ...], str] = {}
            names |= {(*place, "sinks", index): name for index, name in enumerate(rule.sinks or ())}
            names |= {(*place, "sink", name): name for name in rule.sink}
            if isinstance(rule, ViewRule) and rule.from_ is not None:
                names[*place, "from"] = rule.from_
            for loc, name in names.items():
                if name not in by_name:
                    what, fix = f"the pipeline has no sink {name!r}", did_you_mean(name, by_name)
                    self._problems.append(self._document.error(loc, what, fix))
                elif loc[2] == "sink":
                    self._check_options(by_name[name], rule.sink[name], loc)

    def _check_tags(self, config: PipelineConfig, transforms: Sequence[Transform | None]) -> None:
        """Add the problems of transforms that name unknown tags."""
        named = [
            (n, transform.name, tag)
            for n, transform in enumerate(transforms)
            if transform
            for tag in self._collect(_list_tags, transform) or ()
        ]
        for number, name, tag in named:
            if tag not in config.tags:
                new = f"write `tags: {{{tag}: [email]}}` beside `transforms:`"
                what, fix = f"the pipeline has no tag {tag!r}", did_you_mean(tag, config.tags) if config.tags else new
                self._problems.append(self._document.error(("transforms", number, name), what, fix))

    def _check_options(self, sink: Sink, options: Mapping[str, Any], loc: tuple[Any, ...]) -> None:
        try:
            replace_options(sink.config, options)
        except ValidationError as error:
            if not is_of_whole_block(error):
                self._add_problems(error, loc)

    def _collect(self, work: Callable[..., Built], *arguments: Any) -> Built | None:
        """Return the result of ``work``, or None after adding its problem."""
        try:
            return work(*arguments)
        except _InvalidBlockError:
            return None
        except (ConfigError, PluginError) as error:
            self._problems.append(error)
            return None

    def _add_problems(self, error: ValidationError, prefix: tuple[Any, ...] = ()) -> None:
        """Add the problems of a pydantic error, except those of values with a reference that cannot be resolved."""
        unknown = self._missing.places if self._missing else set()
        self._problems += [p for p in self._document.list_problems(error, prefix) if p.where not in unknown]

    def _join_problems(self) -> HeadraceError:
        """Return one error for all problems; a single one stays as it is."""
        if len(self._problems) == 1:
            return self._problems[0]
        kind = PluginError if all(isinstance(one, PluginError) for one in self._problems) else ConfigError
        return kind(join_problems(self._problems))

    def _format(self, block: Any, loc: tuple[Any, ...]) -> Any:
        return block if block == NO_FORMAT and loc[-1] == "key" else self._inner("format", block, loc)

    def _inner(self, kind: str, block: Any, loc: tuple[Any, ...]) -> Any:
        """Build the plugin that a key names."""
        try:
            name, options = parse_plugin_block(block, kind)
        except ValueError as error:
            example = {"format": "json"}.get(kind, "NAME")
            raise self._document.error(loc, str(error), f"write it like `{loc[-1]}: {{{example}: {{}}}}`") from None
        return self._plugin(kind, name, options, loc)

    def _plugin(self, kind: str, name: str, config: Any, loc: tuple[Any, ...]) -> Any:
        try:
            registration = self._registry.find(kind, name)
            plugin: type[Plugin] = self._registry.load(registration)
        except PluginError as error:
            error.at(self._document.where((*loc, name)))
            raise
        if config is not None and not isinstance(config, dict):
            raise self._document.error(
                (*loc, name), f"the options of {name!r} must be a mapping", f"write `{name}: {{…}}`"
            )
        before, config = len(self._problems), dict(config or {})
        for key, inner in plugin.Config.plugin_blocks().items():
            if config.get(key) is not None:
                config[key] = self._collect(self._inner, inner, config[key], (*loc, name, key))
        try:
            with as_plugin_error(f"{registration} cannot be built", ValidationError, HeadraceError, _InvalidBlockError):
                options = plugin.Config.model_validate(config)
                # An inner block has a problem, or an option has no value yet.
                if len(self._problems) > before or (self._missing and self._missing.affects((*loc, name))):
                    raise _InvalidBlockError
                return plugin(options)
        except ValidationError as error:
            self._add_problems(error, (*loc, name))
            raise _InvalidBlockError from None
        except PluginError as error:
            raise error.at(self._document.where((*loc, name))) from error.__cause__


def _omit_command_blocks(data: Any) -> Any:
    """Return the file without the blocks of commands: a run neither reads them nor resolves their references."""
    if not isinstance(data, dict) or data.keys() <= set(PipelineConfig.keys()):
        return data
    blocks = list_block_commands()
    return {key: value for key, value in data.items() if key not in blocks}


class _InvalidBlockError(Exception):
    """A block whose problems were added to the others."""


class SecretProviders(Mapping[str, SecretProvider]):
    """Secret providers: built-in ones, and those of plugins, which are imported when a reference names them."""

    def __init__(self, plugins: PluginRegistry) -> None:
        self._plugins = plugins
        self._names = dict.fromkeys([*PROVIDERS, *plugins.names("secret")])

    def __getitem__(self, name: str) -> SecretProvider:
        provider: SecretProvider = PROVIDERS[name] if name in PROVIDERS else self._plugins.get("secret", name)
        return provider

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
