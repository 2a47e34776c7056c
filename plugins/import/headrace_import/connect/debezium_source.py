"""Debezium's source connectors: the topics that they write, and options that headrace must share."""

from __future__ import annotations

import re

from headrace.sdk import ConfigError
from headrace_import.connect.naming_strategy import apply_strategy
from headrace_import.connect.smt import split_list
from headrace_import.connect.topics import Topics, quote_pattern
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

CLASSES = {
    "io.debezium.connector.postgresql.PostgresConnector": "schema",
    "io.debezium.connector.mysql.MySqlConnector": "database",
    "io.debezium.connector.mariadb.MariaDbConnector": "database",
    "io.debezium.connector.sqlserver.SqlServerConnector": "schema",
}
#: Options with the first part of the topics.
TOPIC_PREFIX = ("topic.prefix", "database.server.name")
_PLACEHOLDER = ("unavailable.value.placeholder", "toasted.value.placeholder")
_DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"
#: An item of a list of regular expressions.
_ITEM = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_REFERENCE_LIST = "the regular expression of the topics has the reference: separate its names with `|`, not with commas"
_INCLUDED, _EXCLUDED = ("table.include.list", "table.whitelist"), ("table.exclude.list", "table.blacklist")


def read_topics(settings: Settings) -> Topics:
    """Return the topics of a connector. ConfigError without a prefix."""
    prefix_key = settings.find(*TOPIC_PREFIX)
    if prefix_key is None:
        fix = "add `topic.prefix`, or `database.server.name` for Debezium 1"
        raise ConfigError("the connector has no prefix of its topics", where=settings.place, fix=fix)
    return apply_strategy(settings, _read_lists(settings, prefix_key), CLASSES[settings.get("connector.class")])


def read_dialects(settings: Settings) -> Block | None:
    """Return the options of dialects that must equal those of the connector."""
    key = settings.find(*_PLACEHOLDER)
    if key is None:
        return None
    options = Block()
    options.add("unavailable.value.placeholder", settings.read(key), settings.cite(key))
    return Block({"debezium": options, "flat": options})


def read_placeholder(settings: Settings) -> str:
    """Return the text that the connector writes for a large value without a change."""
    return settings.get(settings.find(*_PLACEHOLDER) or "", _DEFAULT_PLACEHOLDER)


def list_levels(settings: Settings) -> list[str]:
    """Return the fields of a record's source block that its topic has after the prefix."""
    if CLASSES.get(settings.get("connector.class")) == "database":
        return ["db", "table"]
    return [*(["db"] if list_databases(settings) else []), "schema", "table"]


def split_topics(settings: Settings) -> tuple[str, str]:
    """Return a regular expression of the connector's topics, and their name with the groups ``{1}``, ``{2}`` … for its parts.

    The prefix is no group: it may have dots.
    """
    prefix, delimiter = settings.get(settings.find(*TOPIC_PREFIX) or ""), _read_delimiter(settings)
    count = len(list_levels(settings))
    pattern = quote_pattern(delimiter).join([quote_pattern(prefix), *["([^.]+)"] * (count - 1), "(.+)"])
    return pattern, delimiter.join([prefix, *(f"{{{number}}}" for number in range(1, count + 1))])


def _read_lists(settings: Settings, prefix_key: str) -> Topics:
    """Return the topics of the tables in the connector's lists, as its default strategy names them."""
    delimiter, prefix, databases = _read_delimiter(settings), settings.get(prefix_key), list_databases(settings)
    keys = [prefix_key, "topic.delimiter", *(["database.names"] if databases else [])]
    included = settings.find(*_INCLUDED)
    if included and all(map(_is_name, _list_names(settings.get(included)))):
        _report_case(settings, included)
        named = [item.replace("\\.", ".") for item in _list_names(settings.get(included))]
        tables = _apply_outer_lists(settings, included, named)
        parts = [
            [prefix, *([base] if base else []), *table.split(".")] for base in databases or [""] for table in tables
        ]
        names = tuple(dict.fromkeys(_sanitize(delimiter.join(part)) for part in parts))
        return Topics(names, comment=settings.cite(*keys, included))
    if included:
        why = f"Debezium applies it, too: the topics of `{included}` may have tables that it leaves out"
        settings.reject(_list_used_outer(settings), why, "check that each table has a topic", Kind.TO_DO)
    pattern, more = _make_pattern(settings, included)
    settings.report_references([*more, *keys[2:]], _REFERENCE_LIST)
    between = quote_pattern(delimiter)
    if delimiter != ".":  # The lists match names with a dot.
        pattern = pattern.replace("\\.", between).replace("[.]", between)
    start = "".join(f"{part}{between}" for part in (quote_pattern(prefix), _join_names(databases)) if part)
    return Topics(pattern=f"{start}{pattern}", comment=settings.cite(*keys, *more))


def _read_delimiter(settings: Settings) -> str:
    return settings.get("topic.delimiter") or "."


def _make_pattern(settings: Settings, included: str | None) -> tuple[str, list[str]]:
    """Return a regular expression of ``schema.table``, and the options that give it. Debezium's lists ignore the case."""
    if included:
        return f"(?i:{'|'.join(_list_names(settings.get(included)))})", [included]
    keys, parts = [], []
    included_outer, excluded_outer = _list_outer_keys(settings)
    if excluded := settings.find(*_EXCLUDED):
        keys.append(excluded)
        parts.append(f"(?!(?i:{'|'.join(_list_names(settings.get(excluded)))})$)")
    if outer := settings.find(*included_outer):
        keys.append(outer)
        return "".join([*parts, f"(?i:{'|'.join(_list_names(settings.get(outer)))})[.].+"]), keys
    if outer := settings.find(*excluded_outer):
        keys.append(outer)
        parts.append(f"(?!(?i:{'|'.join(_list_names(settings.get(outer)))})[.])")
    return "".join([*parts, "[^.]+[.].+"]), keys


def _list_outer_keys(settings: Settings) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the options that include and exclude whole schemas or databases, each with its older name."""
    level = CLASSES[settings.get("connector.class")]
    return (f"{level}.include.list", f"{level}.whitelist"), (f"{level}.exclude.list", f"{level}.blacklist")


def _list_used_outer(settings: Settings) -> list[str]:
    return [key for keys in _list_outer_keys(settings) for key in keys if settings.get(key)]


def _apply_outer_lists(settings: Settings, included: str, tables: list[str]) -> list[str]:
    """Return the tables that the lists of schemas or databases do not leave out, and report these lists."""
    outer, listed = _list_used_outer(settings), [table for table in tables if _is_in_outer(settings, table)]
    if listed == tables:
        settings.ignore(outer, f"`{included}` names the tables of the topics")
    elif listed:
        settings.ignore(outer, f"it leaves out tables of `{included}`, which have no topic")
    else:
        why = f"it leaves out all tables of `{included}`"
        settings.reject(outer, why, "correct the lists of the connector", Kind.TO_DO)
    return listed or tables


def _is_in_outer(settings: Settings, table: str) -> bool:
    """Return whether the lists of schemas or databases have that of a table; True for lists that cannot be evaluated here."""
    name = table.split(".")[-2]
    included, excluded = (settings.find(*keys) for keys in _list_outer_keys(settings))
    try:
        matches = [
            any(re.fullmatch(item, name, re.IGNORECASE) for item in _list_names(settings.get(key))) if key else None
            for key in (included, excluded)
        ]
    except re.error:
        return True
    return matches[0] is not False and not matches[1]


def list_databases(settings: Settings) -> list[str]:
    """Return the databases in the topics of SQL Server, which follow the prefix since Debezium 2."""
    is_sqlserver = settings.get("connector.class").endswith("SqlServerConnector")
    return split_list(settings.get("database.names")) if is_sqlserver else []


def _list_names(text: str) -> list[str]:
    r"""Return the items of a list of names or regular expressions, in which ``\,`` is a comma of an item.

    Debezium compares the whole name, with and without anchors.
    """
    items = (item.strip().replace(r"\,", ",") for item in _ITEM.findall(text))
    return [re.sub(r"^\^|(?<!\\)\$$", "", item) for item in items if item]


def _join_names(names: list[str]) -> str:
    return f"(?:{'|'.join(map(quote_pattern, names))})" if names else ""


def _is_name(item: str) -> bool:
    """Return whether an item of a table list is a name, not a regular expression."""
    return bool(re.fullmatch(r"[\w$, -]+((\\?\.)[\w$, -]+)+", item))


def _report_case(settings: Settings, included: str) -> None:
    """Report names with upper case, because the list ignores the case, and the topics have that of the database."""
    if settings.get(included) != settings.get(included).lower():
        why = "Debezium's list ignores the case, and the names of topics have the case of the tables in the database"
        settings.add_to_do([included], why, "check the case of the names in `subscribe`")


def _sanitize(name: str) -> str:
    """Return the topic for a name, as Debezium replaces invalid characters."""
    return name if "${" in name else re.sub(r"[^a-zA-Z0-9._-]", "_", name)
