"""JSON Schema of the pipeline file, with the options of all installed plugins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema as core

from headrace.config.command_blocks import list_block_commands
from headrace.config.model import NO_FORMAT, PipelineConfig
from headrace.errors import PluginError
from headrace.registry.plugin_errors import as_plugin_error
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import Registration
from headrace.sdk.config import Config
from headrace.sdk.plugin import Plugin

Schema = dict[str, Any]

#: Kinds of plugins that have a block in the file.
_KINDS = ("source", "format", "transform", "dialect", "sink", "auth", "catalog")
_OBSERVER = "observer"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Schema = {"type": "string", "pattern": r"\$\{[A-Za-z][A-Za-z0-9_-]*:[^${}]*\}"}
#: Type of an option that passes through.
_OPTION: Schema = {"type": ["string", "number", "boolean"]}


def pipeline_schema(registry: PluginRegistry) -> Schema:
    """Return the schema of a pipeline file, without broken plugins.

    A field of a plugin's config that holds another plugin has ``json_schema_extra={"x-plugin-block": kind}``.
    """
    root = config_schema(PipelineConfig)
    properties, definitions = root["properties"], root["$defs"]
    schemas: dict[str, dict[str, Schema]] = {}
    for kind in _KINDS:
        schemas[kind] = _collect_schemas(registry, kind)
        definitions[f"block.{kind}"] = _block(kind, list(schemas[kind]))
    definitions["block.key"] = _block("format", list(schemas["format"]), NO_FORMAT)
    for kind in _KINDS:
        definitions |= {f"{kind}.{name}": _embed(made, f"{kind}.{name}") for name, made in schemas[kind].items()}
    properties["source"] |= _source(list(schemas["source"]))
    properties["transforms"]["items"] = _ref("block.transform")
    dialects = {name: _options("dialect", name) for name in schemas["dialect"]}
    properties["dialects"] |= {"properties": dialects, "additionalProperties": False}
    properties["sink"] = {"description": properties["sink"].get("description", ""), **_ref("block.sink")}
    properties["sinks"] |= {"items": _ref("block.sink"), "minItems": 1}
    # A validator of the model accepts a single column without brackets.
    rule = definitions["TableRule"]["properties"]
    one_key, keys = rule["key"]["anyOf"]
    for columns in (one_key, keys["additionalProperties"], rule["route.by.field"]):
        columns["type"] = ["string", "array"]
    view = definitions["ViewRule"]["properties"]
    for columns in (view["key"], view["touched_by"]["additionalProperties"]):
        columns["type"] = ["string", "array"]
    for properties_of in (rule, view):
        properties_of["sink"] |= _options_by_sink(definitions, schemas["sink"])
    for name, command in list_block_commands().items():
        definitions[f"command.{name}"] = _embed(config_schema(command.model), f"command.{name}")
        properties[name] = _options("command", name)
    for name, made in _collect_schemas(registry, _OBSERVER).items():
        if name not in PipelineConfig.keys():  # noqa: SIM118 - not a mapping
            definitions[f"{_OBSERVER}.{name}"] = _embed(made, f"{_OBSERVER}.{name}")
            properties[name] = _options(_OBSERVER, name)
    properties["spark"] |= {"patternProperties": {r"^spark\.": _OPTION}, "additionalProperties": False}
    root["oneOf"] = [{"required": ["sink"]}, {"required": ["sinks"]}]
    return {"$schema": _DIALECT, **root, "title": "headrace pipeline"}


def _options_by_sink(definitions: Schema, sinks: Mapping[str, Schema]) -> Schema:
    """Return the schema of the options that a rule has for sinks, and add their definitions: the same as of a sink, none required."""
    for name in sinks:
        definitions[f"table.{name}"] = {k: v for k, v in definitions[f"sink.{name}"].items() if k != "required"}
    # Other names are those of sinks with the option ``name``.
    return {"properties": {name: _ref(f"table.{name}") for name in sinks}, "additionalProperties": {"type": "object"}}


def plugin_schema(item: Registration, plugin: type[Plugin]) -> Schema:
    """Return the schema of a plugin's block. PluginError when its options have none."""
    with as_plugin_error(f"{item} has options that JSON Schema cannot express"):
        made = config_schema(plugin.Config)
        json.dumps(made)
    return made


def config_schema(model: type[Config]) -> Schema:
    """Return the schema of one block: keys as in the file, no unknown keys, attribute docstrings as descriptions."""
    return model.model_json_schema(by_alias=True, schema_generator=_Generator)


class _Generator(GenerateJsonSchema):
    """Generator of pydantic's schema with references as values and options that pass through."""

    def model_schema(self, schema: core.ModelSchema) -> JsonSchemaValue:
        built = super().model_schema(schema)
        model = schema["cls"]
        if not issubclass(model, Config):
            return built
        properties = built.setdefault("properties", {})
        for name, field in model.model_fields.items():
            if (key := field.alias or name) in properties and field.description:
                properties[key]["description"] = describe_field(field)
        patterns = {}
        for option in model.passthrough_patterns({}):  # an empty block passes what all blocks pass
            if "*" in option or "?" in option:
                patterns[_to_regex(option)] = _OPTION
            else:
                properties.setdefault(option, _OPTION)
        if patterns:
            built["patternProperties"] = patterns
        return {**built, "additionalProperties": False}

    def nullable_schema(self, schema: core.NullableSchema) -> JsonSchemaValue:
        built = super().nullable_schema(schema)
        match built.get("anyOf"):
            case [{"$ref": _} as model, {"type": "null"}]:  # errors in the model are then reported at its keys
                return {"if": {"type": "null"}, "else": model}
        return built

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}  # a plugin's own type: the model validates it, the schema accepts it

    def int_schema(self, schema: core.IntSchema) -> JsonSchemaValue:
        return _allow_reference(super().int_schema(schema))

    def float_schema(self, schema: core.FloatSchema) -> JsonSchemaValue:
        return _allow_reference(super().float_schema(schema))

    def bool_schema(self, schema: core.BoolSchema) -> JsonSchemaValue:
        return _allow_reference(super().bool_schema(schema))

    def literal_schema(self, schema: core.LiteralSchema) -> JsonSchemaValue:
        return _allow_reference(super().literal_schema(schema))

    def enum_schema(self, schema: core.EnumSchema) -> JsonSchemaValue:
        return _allow_reference(super().enum_schema(schema))

    def str_schema(self, schema: core.StringSchema) -> JsonSchemaValue:
        built = super().str_schema(schema)
        return _allow_reference(built) if built.keys() & {"pattern", "maxLength"} else built


def describe_field(field: FieldInfo) -> str:
    """Return the description of an option in one line, with code in single backticks."""
    return " ".join((field.description or "").split()).replace("``", "`")


def _collect_schemas(registry: PluginRegistry, kind: str) -> dict[str, Schema]:
    """Return the schemas of all valid plugins of a kind, by name."""
    found = {}
    for name, plugin in registry.all(kind):
        with suppress(PluginError):
            found[name] = plugin_schema(registry.find(kind, name), plugin)
    return found


def _source(names: list[str]) -> Schema:
    """Return the schema of one named source with the formats of key and value."""
    blocks = {name: _options("source", name) for name in names}
    formats = {key: _ref("block.format") for key in PipelineConfig.FORMAT_KEYS}
    formats["key"] = _ref("block.key")
    one: list[Any] = [{"required": [name]} for name in names] or [False]
    return {"properties": blocks | formats, "additionalProperties": False, "oneOf": one}


def _block(kind: str, names: list[str], *others: str) -> Schema:
    """Return the schema of one plugin with its options, or of its bare name; ``others``: further valid strings.

    It has no ``anyOf``: validators report an error of an alternative at the whole block, not at the wrong key.
    """
    strings = [*names, *others]
    return {
        "type": ["object", "string"] if strings else "object",
        "properties": {name: _options(kind, name) for name in names},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
        **({"if": {"type": "string"}, "then": {"enum": strings}} if strings else {}),
    }


def _options(kind: str, name: str) -> Schema:
    return _ref(f"{kind}.{name}")


def _ref(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}


def _embed(schema: Schema, name: str) -> Schema:
    """Return a plugin's schema as the definition ``name`` of a larger one, which accepts a block without options (null).

    References point to the plugin's own definitions there.
    """

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        if (plugin_kind := value.get("x-plugin-block")) in _KINDS:
            return {"description": value.get("description", ""), **_ref(f"block.{plugin_kind}")}
        if isinstance(target := value.get("$ref"), str):
            return {**value, "$ref": target.replace("#", f"#/$defs/{name}", 1)}
        return {key: walk(item) for key, item in value.items()}

    definition: Schema = walk(schema)
    if definition.get("type") == "object":
        return {**definition, "type": ["object", "null"]}
    return {"$defs": definition.pop("$defs", {}), "if": {"type": "null"}, "else": definition}


def _allow_reference(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Allow ``${env:…}`` in place of a value: references are replaced before the model validates it."""
    return {"anyOf": [schema, _REFERENCE]}


def _to_regex(option: str) -> str:
    """Return ``write.*`` as a regular expression for JSON Schema."""
    special: Iterable[tuple[str, str]] = ((r"([.^$+()\[\]{}|\\])", r"\\\1"), (r"\*", ".*"), (r"\?", "."))
    for pattern, replacement in special:
        option = re.sub(pattern, replacement, option)
    return f"^{option}$"
