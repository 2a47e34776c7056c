"""JDBC source connectors of Confluent and Aiven: as source ``jdbc``, or the topics that they write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote, unquote_plus

from headrace.sdk import ConfigError
from headrace_import.connect.smt import split_list, typed
from headrace_import.connect.topics import Topics, quote_pattern
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Blocks
from headrace_import.settings import Settings

CLASSES = ("io.confluent.connect.jdbc.JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector")
#: Databases of the source ``jdbc``.
_POSTGRESQL = "jdbc:postgresql:"
_DATABASES = (_POSTGRESQL, "jdbc:mariadb:", "jdbc:mysql:")
#: Functions that decode parameters of an address as the driver does. The driver of MariaDB takes them as they are.
_DECODERS: Mapping[str, Callable[[str], str]] = {_POSTGRESQL: unquote_plus, "jdbc:mysql:": unquote}
_URL, _USER, _PASSWORD = "connection.url", "connection.user", "connection.password"
_LOGIN = ("user", "password")
#: An address with a login before the host, as those of MySQL and MariaDB may have.
_HOST_LOGIN = re.compile(
    r"(?P<start>jdbc:\w+://)(?P<user>(?:\$\{[^}]*\}|[^:/@()])+)(?::(?P<password>.*))?@(?P<host>[^@()]*)"
)
_NAMES, _TIMES, _NUMBER = ("table.whitelist",), "timestamp.column.name", "incrementing.column.name"
_PATTERNS, _EXCLUDED = ("table.include.list", "table.include"), ("table.exclude.list", "table.exclude")
#: Mode → the columns that it uses.
_MODES: Mapping[str, Sequence[str]] = {
    "bulk": (),
    "timestamp": (_TIMES,),
    "incrementing": (_NUMBER,),
    "timestamp+incrementing": (_TIMES, _NUMBER),
}
#: Options with the same names and meanings.
_SAME = (
    "query",
    "schema.pattern",
    "table.types",
    "poll.interval.ms",
    "table.poll.interval.ms",
    "timestamp.delay.interval.ms",
    "validate.non.null",
    "db.timezone",
)
_MAPPINGS = ("none", "precision_only", "best_fit")
#: Options of ``insert`` for which rows of a database have no value.
_PLACES = ("partition.field", "offset.field", "timestamp.field", "headers", "fields")


def can_replace(settings: Settings) -> bool:
    """Return whether the source ``jdbc`` reads the database of the connector. An address that is a reference is not known."""
    url = settings.get(_URL)
    return settings.get("connector.class") in CLASSES and (url.startswith(_DATABASES) or "${" in url[:2])


def read_topics(settings: Settings) -> Topics:
    """Return the topics of a connector."""
    prefix = settings.get("topic.prefix")
    if settings.get("query"):
        return Topics((prefix,), comment=settings.cite("topic.prefix", "query"))
    if (tables := settings.find(*_NAMES, *_PATTERNS)) and "${" not in settings.get(tables):
        names = [prefix + _last(table) for table in split_list(settings.get(tables))]
        if tables in _NAMES or all(re.fullmatch(r"[\w.]+", table) for table in split_list(settings.get(tables))):
            return Topics(tuple(names), comment=settings.cite("topic.prefix", tables))
    return Topics(pattern=f"{quote_pattern(prefix)}.+", comment=settings.cite("topic.prefix"))


def report_connector(settings: Settings) -> None:
    """Report the limits of a connector that continues to write topics."""
    why = "a JDBC source does not see deletes, and may miss changes between two polls"
    settings.add_to_do(["connector.class"], why, "replace it with a Debezium connector")
    why = "the pattern of topics includes all tables"
    settings.report_references(_NAMES, why)
    settings.ignore([*_NAMES, "table.blacklist", *_PATTERNS, *_EXCLUDED], why)


def read_source(settings: Settings, topics: Topics, *, appends_only: bool) -> Block:
    """Return the source ``jdbc``. ``topics``: those that the pipeline reads; ``appends_only``: its sinks append rows."""
    jdbc = Block(comment=settings.cite("connector.class"))
    why = "the pipeline reads the database in place of the connector, from the first row, and does not see deleted rows"
    fix = (
        "stop the connector; `--keep-transforms` reads its topics; `deleted.column.name` names a column of soft deletes"
    )
    settings.add_to_do(["connector.class"], why, fix)
    _write_connection(settings, jdbc)
    _write_mode(settings, jdbc, appends_only=appends_only)
    _write_tables(settings, jdbc, topics)
    jdbc.add("topic.prefix", settings.read("topic.prefix"), settings.cite("topic.prefix"))
    for name in _SAME:
        if settings.get(name):
            jdbc.add(name, typed(name, settings.read(name)), settings.cite(name))
    _write_numbers(settings, jdbc)
    _report_rest(settings)
    return Block({"jdbc": jdbc})


def report_missing_key(settings: Settings, draft: Block) -> None:
    """Report a query for whose rows no rule names the key columns."""
    tables = draft.entries.get("tables")
    if settings.get("query") and not (
        isinstance(tables, Blocks) and all("key" in rule.entries for rule in tables.items)
    ):
        fix = "`tables: [{source: '*', key: [COLUMN]}]`"
        settings.add_to_do(["query"], "the rows of a query have no primary key", fix)


def remove_places(settings: Settings, steps: Sequence[Block]) -> list[Block]:
    """Return the steps of a chain without columns for partitions, offsets and headers, which rows of a database lack."""
    for step in steps:
        options = step.entries.get("insert")
        found = [name for name in _PLACES if isinstance(options, Block) and name in options.entries]
        if isinstance(options, Block) and found:
            options.entries = {name: node for name, node in options.entries.items() if name not in found}
            why = f"rows of a database have no {', '.join(name.removesuffix('.field') for name in found)}"
            settings.report.add(Kind.NOT_IMPORTED, settings.place, ["transforms"], why)
    return [step for step in steps if not isinstance(node := step.entries.get("insert"), Block) or node.entries]


def _write_connection(settings: Settings, jdbc: Block) -> None:
    """Add the address and the login, which the address may contain."""
    address, question, text = settings.get_written(_URL).partition("?")
    pairs = {part: part.partition("=")[::2] for part in text.split("&") if part}
    given = {name.lower(): value for name, value in pairs.values() if name.lower() in _LOGIN}
    decode = next((_DECODERS[kind] for kind in _DECODERS if address.startswith(kind)), str)
    login = {f"connection.{name}": _decode(value, decode) for name, value in given.items()}
    if match := _HOST_LOGIN.fullmatch(address):
        address = match["start"] + match["host"]
        login = {_USER: _decode(match["user"]), _PASSWORD: _decode(match["password"] or "")} | login
    rest = "&".join(part for part, (name, _) in pairs.items() if name.lower() not in _LOGIN)
    values = {_URL: f"{address}{question}{rest}".removesuffix("?"), **login}
    parts = Settings(settings.place, values, settings.report, spelling=dict.fromkeys(login, _URL))
    jdbc.add(_URL, parts.read(_URL), settings.cite(_URL))
    for name in (_USER, _PASSWORD):
        owner, key = (settings, name) if settings.get(name) else (parts, _URL)
        if owner.get(name):
            jdbc.add(name, owner.read(name, variable=name), settings.cite(key))


def _write_mode(settings: Settings, jdbc: Block, *, appends_only: bool) -> None:
    """Add the mode and its columns. ConfigError for a connector without one."""
    mode = settings.get("mode")
    if mode not in _MODES:
        fix = f"`mode` is one of {', '.join(_MODES)}"
        raise ConfigError("the connector has no mode", where=f"{settings.place}, mode", fix=fix)
    jdbc.add("mode", mode, settings.cite("mode"))
    for name in (_TIMES, _NUMBER):
        columns = split_list(settings.get(name))
        if name not in _MODES[mode]:
            settings.ignore([name], f"`mode: {mode}` does not use it")
        elif columns:
            jdbc.add(name, columns if len(columns) > 1 else columns[0], settings.cite(name))
        else:
            variable = settings.report.name_variable(name, "")
            jdbc.add(name, f"${{env:{variable}}}", "the connector finds the column itself")
            fix = f"set the environment variable {variable}"
            settings.report.add(Kind.TO_DO, settings.place, [name], "the file does not name the column", fix)
    if appends_only and _MODES[mode]:
        window = "timestamp.window.interval.ms" if _TIMES in _MODES[mode] else "incrementing.window"
        jdbc.add(window, 0, "the sink only appends, and the connector reads each row once")
        why = "rows of transactions that commit late are lost, as in the connector"
        settings.add_to_do(["mode"], why, "`timestamp.delay.interval.ms`, as long as your longest transaction")


def _write_tables(settings: Settings, jdbc: Block, topics: Topics) -> None:
    """Add the lists of tables, limited to the topics of the pipeline."""
    own, prefix = read_topics(settings), settings.get("topic.prefix")
    listed, patterns = settings.find(*_NAMES), settings.find(*_PATTERNS)
    names = [".".join(_unquote(name).split(".")[-2:]) for name in split_list(settings.get(listed or ""))]
    is_limited = not topics.is_same(own) and not settings.get("query")
    if is_limited and topics.names:
        chosen = [name for name in names if prefix + _last(name) in topics.names]
        chosen = chosen or [name.removeprefix(prefix) for name in topics.names if name.startswith(prefix)]
        comment = "; ".join(filter(None, [topics.comment, settings.cite(*_NAMES)]))
        jdbc.add("table.whitelist", chosen, comment)
        settings.ignore([*_PATTERNS], "the topics of the sink name the tables")
    elif listed:
        has_reference = "${" in settings.get(listed)  # Its value may have commas.
        jdbc.add("table.whitelist", settings.read(listed) if has_reference else names, settings.cite(listed))
    elif patterns:
        text = settings.get(patterns)
        jdbc.add("table.include.list", text if "${" in text else split_list(text), settings.cite(patterns))
    if is_limited and topics.pattern:
        fix = "name the tables in `table.whitelist` or `table.include.list`"
        settings.add_to_do(
            ["topic.prefix"], "the pipeline reads all tables of the connector, not the sink's topics", fix
        )
    _write_excluded(settings, jdbc)
    if "table.include.list" in jdbc.entries or settings.find(*_EXCLUDED):
        why = "a pattern must match `schema.table` as a whole, or `database.table` in MariaDB and MySQL"
        settings.add_to_do([key for key in (*_PATTERNS, *_EXCLUDED) if settings.has(key)], why, "check the patterns")
    if settings.get(_URL).startswith(_POSTGRESQL):
        settings.ignore(["catalog.pattern"], "a connection to PostgreSQL reads one database")
    elif settings.get("catalog.pattern"):
        jdbc.add("catalog.pattern", settings.read("catalog.pattern"), settings.cite("catalog.pattern"))


def _write_excluded(settings: Settings, jdbc: Block) -> None:
    excluded = settings.find(*_EXCLUDED)
    patterns = split_list(settings.get(excluded or ""))
    for name in split_list(settings.get("table.blacklist")):
        parts = _unquote(name).split(".")[-2:]
        patterns.append("[.]".join([".*", *map(re.escape, parts)][-2:]))
    if patterns:
        keys = ["table.blacklist", *([excluded] if excluded else [])]
        jdbc.add("table.exclude.list", patterns, settings.cite(*keys))


def _write_numbers(settings: Settings, jdbc: Block) -> None:
    """Add the mapping of decimals, of which an older option has one value."""
    mapping, older = settings.get("numeric.mapping"), settings.get("numeric.precision.mapping").lower() == "true"
    if mapping in _MAPPINGS:
        jdbc.add("numeric.mapping", mapping, settings.cite("numeric.mapping"))
    elif mapping:
        fix = f"`numeric.mapping` is one of {', '.join(_MAPPINGS)}"
        settings.reject(["numeric.mapping"], "the source has no such mapping; decimals stay decimals", fix)
    elif older:
        jdbc.add("numeric.mapping", "precision_only", settings.cite("numeric.precision.mapping"))


def _report_rest(settings: Settings) -> None:
    """Report options with an effect that the source does not have."""
    starts = [key for key in ("timestamp.initial", "timestamp.initial.ms") if settings.get(key) not in ("", "0")]
    settings.reject(
        starts, "the source starts with the first row", "`filter: {condition: …}`, or a condition in `query`"
    )
    settings.reject(["query.suffix"], "the source appends nothing to its statements", "write it into `query`")
    settings.reject(
        ["transaction.isolation.mode"], "the source reads with the isolation of the driver", "set it for the user"
    )
    known = {_URL, _USER, _PASSWORD, "connection.attempts", "connection.backoff.ms"}
    driver = [key for key in settings.list_keys("connection.") if key not in known]
    settings.reject(driver, "an option of the driver", "add it to the address: `?NAME=VALUE`")


def _decode(text: str, decode: Callable[[str], str] = unquote) -> str:
    return text if "${" in text else decode(text)


def _last(name: str) -> str:
    return _unquote(name).rpartition(".")[2]


def _unquote(name: str) -> str:
    return re.sub(r"[\"`\[\]]", "", name)
