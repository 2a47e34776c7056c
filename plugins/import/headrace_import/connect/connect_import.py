"""Pipeline from source connectors, sink connectors and workers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.sdk import ConfigError
from headrace_import.connect import debezium_source, iceberg_sink, jdbc_source, lenses_sink, s3_sink
from headrace_import.connect.class_aliases import make_class_error
from headrace_import.connect.converters import ignore_converters, read_formats
from headrace_import.connect.debezium_server import DebeziumServer
from headrace_import.connect.kafka_client import ClientInputs, ignore_clients
from headrace_import.connect.key_columns import keep_key_columns
from headrace_import.connect.known_options import ignore_known_options
from headrace_import.connect.outbox_smt import exclude_other_tables
from headrace_import.connect.routed_topics import select_read_topics
from headrace_import.connect.shared_options import check_brokers, check_shared_options
from headrace_import.connect.shared_tables import report_shared_tables
from headrace_import.connect.smt import split_list
from headrace_import.connect.smt_chain import Chain, ChainUse, import_chain, keep_chain, start_sink_chain
from headrace_import.connect.topics import Topics
from headrace_import.import_report import Kind, Report
from headrace_import.pipeline_draft import Block, Blocks, Line, list_comments
from headrace_import.settings import Settings

#: Class of a transform that changes the names of topics.
_ROUTER = re.compile(r"Router(\$|$)")
_DEFAULT_SINK = "no sink connector was given"


@dataclass
class ConnectInputs:
    """Inputs of one import, by kind."""

    report: Report
    sources: list[Settings] = field(default_factory=list)
    sinks: list[Settings] = field(default_factory=list)
    workers: list[Settings] = field(default_factory=list)
    servers: list[DebeziumServer] = field(default_factory=list)
    #: Whether the pipeline reads the database in the place of a JDBC source connector.
    replaces_jdbc: bool = False

    @property
    def has_kinesis(self) -> bool:
        return any(server.sink_type == "kinesis" for server in self.servers)

    def add_server(self, server: DebeziumServer) -> None:
        """Add the source and the sink of Debezium Server."""
        self.add_connector(server.source)
        self.sinks += [server.sink] if server.sink else []
        self.servers.append(server)

    def add_connector(self, settings: Settings) -> None:
        """Add a connector by its class. ConfigError for a class that headrace cannot replace."""
        kind = settings.get("connector.class")
        if kind in (*debezium_source.CLASSES, *jdbc_source.CLASSES):
            self.sources.append(settings)
        elif kind in lenses_sink.CLASSES:
            self.sinks.append(lenses_sink.translate_connector(settings))
        elif kind in (s3_sink.CLASS, *iceberg_sink.CLASSES):
            self.sinks.append(settings)
        else:
            raise make_class_error(settings)


def import_connect(inputs: ConnectInputs, *, bootstrap_servers: str | None, keep_transforms: bool) -> Block:
    """Return the pipeline without its name. ConfigError for inputs that do not fit together."""
    if not inputs.sources and not inputs.sinks:
        fix = "give the JSON file of a connector as well"
        raise ConfigError("no input is a connector", where=inputs.workers[0].place, fix=fix)
    check_shared_options(inputs.sources, inputs.sinks, inputs.workers)
    check_brokers([] if bootstrap_servers else inputs.workers)
    if inputs.has_kinesis and len(inputs.sources) > 1:
        fix = "import each source into a pipeline file of its own"
        raise ConfigError("two sources write to Kinesis", where=_list_places(inputs.sources), fix=fix)
    draft, clients = Block(), [*inputs.sinks, *inputs.sources, *inputs.workers]
    inputs.replaces_jdbc = not keep_transforms and _can_replace_jdbc(inputs)
    is_routed = _is_routed(inputs) and not keep_transforms
    topics = _read_topics(inputs, is_routed=is_routed)
    if inputs.replaces_jdbc:
        draft.entries["source"] = _read_jdbc(inputs, topics, bootstrap_servers)
    else:
        draft.entries["source"] = _read_kafka(inputs, topics, bootstrap_servers)
    for server in inputs.servers:
        server.write_source(draft, topics)
    chains = _import_chains(inputs, keep_transforms=keep_transforms)
    for sink in filter(_is_iceberg, inputs.sinks):
        iceberg_sink.report_operations(sink, unwraps=any(chain.unwraps for chain in chains))
    _limit_outbox(inputs, chains, topics)
    _write_tables(draft, inputs, chains)
    if not inputs.sinks or not all(map(_is_append_only, inputs.sinks)):
        report_shared_tables(draft, topics, inputs.sources, inputs.sinks)
    if inputs.replaces_jdbc:
        jdbc_source.report_missing_key(inputs.sources[0], draft)
    _write_transforms(draft, inputs, chains)
    _write_dialects(draft, inputs)
    _write_sinks(draft, inputs)
    for settings in clients:
        settings.report_replaced(list_comments(draft))
    for server in inputs.servers:
        server.report_defaults(list_comments(draft))
    _report_rest(inputs)
    return draft


def _can_replace_jdbc(inputs: ConnectInputs) -> bool:
    """Return whether the source is a JDBC connector that headrace can replace. Names of S3 objects need offsets of records."""
    has_objects = not all(map(_is_iceberg, inputs.sinks))
    return len(inputs.sources) == 1 and jdbc_source.can_replace(inputs.sources[0]) and not has_objects


def _read_jdbc(inputs: ConnectInputs, topics: Topics, bootstrap_servers: str | None) -> Block:
    """Return the source that reads the database, and report the options for topics."""
    (settings,) = inputs.sources
    appends_only = bool(inputs.sinks) and all(map(_is_append_only, inputs.sinks))
    source, why = jdbc_source.read_source(settings, topics, appends_only=appends_only), "the pipeline reads no topics"
    clients = [*inputs.sinks, settings, *inputs.workers]
    ignore_clients(clients, why)
    for client in clients:
        ignore_converters(client, why)
    if bootstrap_servers:
        inputs.report.add(Kind.NO_MEANING, "--bootstrap-servers", (), why)
    return source


def _read_kafka(inputs: ConnectInputs, topics: Topics, bootstrap_servers: str | None) -> Block:
    """Return the source that reads the topics."""
    kafka, clients = Block(), [*inputs.sinks, *inputs.sources, *inputs.workers]
    if not inputs.has_kinesis:
        ClientInputs(clients, bootstrap_servers, inputs.report).write(kafka)
    topics.write(kafka)
    return Block({"kafka": kafka, **read_formats(clients, inputs.report).entries})


def _is_routed(inputs: ConnectInputs) -> bool:
    """Return whether transforms of a source give its topics other names; report it."""
    if inputs.has_kinesis:
        return False
    routed = [s for s in inputs.sources if any(_ROUTER.search(s.get(key)) for key in s.list_keys("transforms."))]
    for settings in routed:
        fix = "check the topics of the source, and the names under `tables:`"
        inputs.report.add(Kind.TO_DO, settings.place, ["transforms"], "a router changes the names of the topics", fix)
    return bool(routed)


def _read_topics(inputs: ConnectInputs, *, is_routed: bool) -> Topics:
    """Return the topics of the sinks. Without a sink, or if headrace applies a router of a source, those of the sources."""
    written = [_read_source_topics(settings) for settings in inputs.sources]
    if (not any(s.find("topics", "topics.regex") for s in inputs.sinks) and written) or is_routed:
        first, *others = written
        for other in others:
            first = first.join(other)
        named = [(s, _read_sink_topics(s)) for s in inputs.sinks if s.find("topics", "topics.regex")]
        return select_read_topics(list(zip(inputs.sources, written, strict=True)), first, named) if named else first
    read = [_read_sink_topics(settings) for settings in inputs.sinks]
    if not all(topics.is_same(read[0]) for topics in read):
        fix = "import each sink into a pipeline file of its own"
        raise ConfigError("the sinks read different topics", where=_list_places(inputs.sinks), fix=fix)
    missing = [name for name in read[0].names if written and not any(topics.has(name) for topics in written)]
    if missing:
        why = f"the given sources do not write these topics: {', '.join(missing)}"
        inputs.report.add(
            Kind.TO_DO, inputs.sinks[0].place, ["topics"], why, "check the names, or import the other sources"
        )
    comments = dict.fromkeys(topics.comment for topics in [*read, *written])
    return Topics(read[0].names, read[0].pattern, "; ".join(comments))


def _read_source_topics(settings: Settings) -> Topics:
    is_jdbc = settings.get("connector.class") in jdbc_source.CLASSES
    return jdbc_source.read_topics(settings) if is_jdbc else debezium_source.read_topics(settings)


def _read_sink_topics(settings: Settings) -> Topics:
    names, pattern = split_list(settings.get("topics")), settings.get("topics.regex")
    if bool(names) == bool(pattern):
        fix = "a sink connector has either `topics` or `topics.regex`"
        raise ConfigError("the topics of the connector are not known", where=settings.place, fix=fix)
    return Topics(tuple(names), pattern, settings.cite("topics", "topics.regex"))


def _import_chains(inputs: ConnectInputs, *, keep_transforms: bool) -> list[Chain]:
    """Return the chains of SMTs of the sources, then those of the sinks."""
    use = ChainUse(
        appends_only=bool(inputs.sinks) and all(map(_is_append_only, inputs.sinks)),
        rewritten_deletes=_find_rewritten_deletes(inputs),
        names_own_tables=any(iceberg_sink.has_static_tables(sink) for sink in inputs.sinks if _is_iceberg(sink)),
        without_routers=_find_reason_without_routers(inputs),
    )
    kept = [keep_chain(settings, use) for settings in inputs.sources if keep_transforms]
    chains = [_import_source_chain(inputs, settings, use) for settings in inputs.sources if not keep_transforms]
    are_rows = any(chain.unwraps for chain in [*kept, *chains])
    of_sinks = replace(use, has_envelopes=any(map(_is_debezium, inputs.sources)) and not are_rows)
    chains += [import_chain(settings, of_sinks, start_sink_chain(chains)) for settings in inputs.sinks]
    count = len(inputs.sinks)
    _check_one_chain(inputs.sources, chains[: len(chains) - count], "source")
    _check_one_chain(inputs.sinks, chains[len(chains) - count :], "sink")
    if not any(chain.unwraps for chain in chains):
        chains = [*[chain for chain in kept if chain.unwraps][:1], *chains]
    return [chain for chain in chains if chain.comment or chain.steps]


def _find_rewritten_deletes(inputs: ConnectInputs) -> str:
    """Return the comment of the sinks that apply the operation of each row; empty if one does not."""
    if any(server.removes_rewritten_deletes for server in inputs.servers):
        return "the sink has `upsert-keep-deletes=false`"
    are_applied = bool(inputs.sinks) and all(map(iceberg_sink.applies_rewritten_deletes, inputs.sinks))
    return "the sink applies `__op`" if are_applied else ""


def _find_reason_without_routers(inputs: ConnectInputs) -> str:
    """Return why the names of topics do not name the tables; empty if they do."""
    if any(server.find_stream() for server in inputs.servers):
        return "it stays in Debezium Server, because it names the stream"
    is_server = any(server.sink for server in inputs.servers)  # This sink names its tables by the topics.
    if inputs.sinks and all(map(_is_iceberg, inputs.sinks)) and not is_server:
        return "the sink names its tables, whatever the names of the topics"
    return ""


def _import_source_chain(inputs: ConnectInputs, settings: Settings, use: ChainUse) -> Chain:
    chain = import_chain(settings, replace(use, has_envelopes=_is_debezium(settings)), Chain())
    if inputs.replaces_jdbc:
        chain.steps = jdbc_source.remove_places(settings, chain.steps)
    elif chain.comment:
        why = "the pipeline applies these transforms, so the connector must not apply them as well"
        fix = "remove them from the connector, or import with --keep-transforms"
        settings.add_to_do(["transforms"], why, fix)
    return chain


def _limit_outbox(inputs: ConnectInputs, chains: Sequence[Chain], topics: Topics) -> None:
    """Exclude the tables of other topics from the outbox; report globs that may match some."""
    for chain in chains:
        rules = [rule for rule in chain.rules if "route.by.field" in rule.entries]
        for options, rule in zip(chain.list_options("outbox"), rules, strict=False):
            if not exclude_other_tables(options, rule, topics):
                place = _list_places([*inputs.sources, *inputs.sinks])
                why = "tables of other topics may match `tables` of `outbox`"
                fix = "name the tables of the events there, or the others in its `tables.exclude`"
                inputs.report.add(Kind.TO_DO, place, ["transforms"], why, fix)


def _check_one_chain(settings: Sequence[Settings], chains: Sequence[Chain], kind: str) -> None:
    """Raise if one of several connectors of a kind has transforms, which would apply to the tables of all."""
    if len(settings) > 1 and any(chain.comment for chain in chains):
        fix = f"import each {kind} into a pipeline file of its own"
        raise ConfigError(f"one of several {kind}s has transforms of its own", where=_list_places(settings), fix=fix)


def _write_tables(draft: Block, inputs: ConnectInputs, chains: Sequence[Chain]) -> None:
    """Add the rules of routers and sinks. A rule for all other topics follows, because topics without a rule are skipped."""
    for server in inputs.servers:
        for chain in chains:
            server.name_tables(chain)
    routed = [rule for chain in chains for rule in chain.rules]
    steps = [step for chain in chains for step in chain.steps]
    rules = [
        *routed,
        *(rule for server in inputs.servers for rule in server.read_rules()),
        *(rule for s in inputs.sinks if _is_iceberg(s) for rule in iceberg_sink.read_rules(s, steps)),
    ]
    _report_databases(inputs, rules)
    keys = [chain.key for chain in chains if chain.key]
    _keep_keys(inputs, chains)
    if not rules and not keys:
        return
    has_rest = any(isinstance(line := rule.entries["source"], Line) and line.value == "*" for rule in rules)
    if not has_rest and not inputs.has_kinesis:
        rules.append(Block({"source": Line("*", "all other topics" if rules else "all topics")}))
    if keys:
        for rule in rules:
            rule.entries.update(keys[-1].entries)
        for settings in filter(_is_debezium, inputs.sources):
            why = "records of Debezium have the table's primary key, which takes precedence over `key:`"
            settings.add_to_do(["transforms"], why, "set `key: none` next to `value:`, if `key:` has other columns")
    draft.entries["tables"] = Blocks(rules)


def _keep_keys(inputs: ConnectInputs, chains: Sequence[Chain]) -> None:
    """Keep the columns of `key:` that a transform removes, and report them."""
    keys = [chain.key for chain in chains if chain.key]
    steps = [step for chain in chains for step in chain.steps]
    if kept := [name for key in keys[-1:] for name in keep_key_columns(key, steps)]:
        for chain in chains:
            chain.steps = [step for step in chain.steps if not _is_empty_drop(step)]
        why = f"the transforms remove the key columns {', '.join(kept)}; the table keeps them, because it needs its key"
        fix = "name other columns in `key:` of `tables:`, or check that readers may see them"
        place = _list_places([*inputs.sources, *inputs.sinks])
        inputs.report.add(Kind.TO_DO, place, ["transforms"], why, fix)


def _is_empty_drop(step: Block) -> bool:
    options = step.entries.get("drop")
    columns = options.entries.get("columns") if isinstance(options, Block) else None
    return isinstance(columns, Line) and not columns.value


def _report_databases(inputs: ConnectInputs, rules: Sequence[Block]) -> None:
    """Report a rule that gives tables of several databases one name."""
    targets = [line.value for rule in rules if isinstance(line := rule.entries.get("target"), Line)]
    if any("{schema}" in target and "{db}" not in target for target in targets):
        for settings in inputs.sources:
            if len(debezium_source.list_databases(settings)) > 1:
                why = "tables of several databases with one schema and name become one table"
                settings.add_to_do(["database.names"], why, "`{db}` in `target:` of `tables:`")


def _write_transforms(draft: Block, inputs: ConnectInputs, chains: Sequence[Chain]) -> None:
    steps = [step for chain in chains for step in chain.steps]
    comment = "; ".join(chain.comment for chain in chains if chain.comment)
    is_debezium = any(map(_is_debezium, inputs.sources))
    if is_debezium and not inputs.sinks and not any(chain.unwraps for chain in chains):
        place = 1 + max((number for number, step in enumerate(steps) if "outbox" in step.entries), default=-1)
        unwrap = Block(comment="default: the topics have envelopes, and the tables rows")
        steps.insert(place, Block({"unwrap": unwrap}))
    if steps:
        draft.entries["transforms"] = Blocks(steps, comment)
    elif comment and isinstance(tables := draft.entries.get("tables"), Blocks):
        tables.comment = comment


def _write_dialects(draft: Block, inputs: ConnectInputs) -> None:
    """Add the options of dialects, which are the same for all sources."""
    for settings in inputs.sources:
        if dialects := debezium_source.read_dialects(settings):
            draft.entries["dialects"] = dialects


def _write_sinks(draft: Block, inputs: ConnectInputs) -> None:
    sinks, spark, folder = [], Block(), "checkpoints"
    for settings in inputs.sinks:
        if _is_iceberg(settings):
            sinks.append(iceberg_sink.read_sink(settings))
            _add_spark(spark, iceberg_sink.read_spark(settings), settings)
        else:
            sinks.append(s3_sink.read_sink(settings))
            _add_spark(spark, s3_sink.read_spark(settings, has_others=len(inputs.sinks) > 1), settings)
            folder = f"{s3_sink.read_bucket(settings)}/_checkpoints"
    if not sinks:
        options = Block(comment=f"default: {_DEFAULT_SINK}")
        options.add("warehouse", "warehouse/", "default: a folder of this machine")
        sinks.append(Block({"iceberg": options}))
        inputs.report.add(Kind.TO_DO, "sink", (), f"{_DEFAULT_SINK}, so the file names a local folder", "choose a sink")
    if len(sinks) == 1:
        draft.entries["sink"] = sinks[0]
    else:
        draft.entries["sinks"] = Blocks(sinks)
    if spark.entries:
        draft.entries["spark"] = spark
    draft.add("checkpoint", folder, "default: choose a durable folder")


def _add_spark(spark: Block, added: Block, settings: Settings) -> None:
    """Add the Spark settings of a sink. ConfigError if another sink has another value."""
    for name, line in added.entries.items():
        assert isinstance(line, Line)
        present = spark.entries.setdefault(name, line)
        if isinstance(present, Line) and present.value != line.value:
            fix = "import each sink into a pipeline file of its own"
            raise ConfigError(f"the sinks have different values of `{name}`", where=settings.place, fix=fix)


def _report_rest(inputs: ConnectInputs) -> None:
    for server in inputs.servers:
        server.report_rest()
    for settings in inputs.workers:
        ignore_known_options(settings, "worker")
    for settings in inputs.sources:
        groups = ["source", "debezium"]
        if inputs.replaces_jdbc:
            groups = ["jdbc-replaced"]
        elif settings.get("connector.class") in jdbc_source.CLASSES:
            jdbc_source.report_connector(settings)
            groups = ["source", "jdbc-source"]
        settings.ignore(["connector.class"], "the connector still writes the topics")
        ignore_known_options(settings, "every", *groups)
    for settings in inputs.sinks:
        group = "s3-sink" if settings.get("connector.class") == s3_sink.CLASS else "iceberg-sink"
        ignore_known_options(settings, "every", group)


def _is_debezium(settings: Settings) -> bool:
    return settings.get("connector.class") in debezium_source.CLASSES


def _is_iceberg(settings: Settings) -> bool:
    return settings.get("connector.class") in iceberg_sink.CLASSES


def _is_append_only(settings: Settings) -> bool:
    is_s3 = settings.get("connector.class") == s3_sink.CLASS
    return is_s3 or iceberg_sink.is_append_only(settings)


def _list_places(inputs: Sequence[Settings]) -> str:
    return ", ".join(settings.place for settings in inputs)
