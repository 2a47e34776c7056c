"""Pipeline from the jobs of Hudi Streamer, one table of the pipeline for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from headrace.sdk import ConfigError
from headrace_import.connect.kafka_client import ClientInputs
from headrace_import.hudi.table_options import find_debezium, read_table_options
from headrace_import.hudi.taken_folders import add_folders
from headrace_import.import_report import Kind, Report
from headrace_import.pipeline_draft import Block, Blocks, Line, list_comments, read_values
from headrace_import.settings import Settings

_ROOT, _TOPIC, _REGISTRY = "source.dfs.root", "source.kafka.topic", "schemaprovider.registry.url"
_LIMITS = {"kafka.source.maxEvents": "maxOffsetsPerTrigger", "source.kafka.maxEvents": "maxOffsetsPerTrigger"}
_STARTS = {"earliest": "earliest", "latest": "latest"}
_FORMATS = ("avro", "csv", "json", "parquet")
#: Options of Spark's reader that a source of CSV files also has.
_CSV = (
    "sep",
    "header",
    "quote",
    "escape",
    "comment",
    "nullValue",
    "emptyValue",
    "encoding",
    "dateFormat",
    "timestampFormat",
)
_PREFIXES = ("hoodie.streamer.", "hoodie.deltastreamer.")
#: Options of Kafka's consumer with an effect in Spark, which a job has without a prefix.
_CONSUMER = (
    "isolation.level",
    "client.rack",
    "fetch.",
    "max.partition.fetch.bytes",
    "max.poll.",
    "receive.buffer.bytes",
    "send.buffer.bytes",
    "request.timeout.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "default.api.timeout.ms",
    "connections.max.idle.ms",
    "reconnect.backoff.",
    "retry.backoff.",
    "metadata.max.age.ms",
    "client.dns.lookup",
    "check.crcs",
)
#: Arguments of spark-submit.
_SUBMIT = (
    "--class",
    "--master",
    "--deploy-mode",
    "--jars",
    "--packages",
    "--exclude-packages",
    "--repositories",
    "--driver-*",
    "--executor-*",
    "--num-executors",
    "--name",
    "--props",
    "--files",
    "--supervise",
)
#: Options without meaning in a pipeline, with the reason.
_WITHOUT_MEANING = (
    (("--continuous", "--min-sync-interval-seconds"), "`headrace run` without `--available-now` is continuous"),
    (_SUBMIT, "`headrace package` and `spark:` replace the arguments of spark-submit"),
    (
        ("hoodie.datasource.hive_sync.*", "hoodie.datasource.meta.sync.*", "--enable-*sync", "--sync-tool-classes"),
        "headrace registers tables itself: `sync`",
    ),
    (
        ("hoodie.*streamer.schemaprovider.*", "--schemaprovider-class"),
        "headrace reads the schemas of records and files",
    ),
    (("schema.registry.url",), "the address of the schema provider has the registry"),
    (("group.id", "enable.auto.commit", "*.deserializer"), "Spark sets it"),
    (("--retry-on-source-failures",), "headrace repeats a failed read"),
    (("--retry-last-pending-*",), "headrace maintains tables itself"),
    (("--allow-commit-on-no-checkpoint-change", "--force-empty-sync"), "a batch without records needs neither"),
    (("--source-class",), "the options of the source and `value:` name the source and the format"),
    (("auto.offset.reset",), "headrace starts at `earliest`"),
)
#: Options with an effect that headrace does not have, with the reason and the fix.
_REJECTED = (
    (("--transformer-class", "*.transformer.*"), "a transformer is not imported", "`compute` and `filter` with SQL"),
    (("--source-limit",), "a limit in bytes", "`maxFilesPerTrigger` or `maxOffsetsPerTrigger`"),
    (("--checkpoint", "--initial-checkpoint-provider"), "headrace has a checkpoint of its own", "`startingOffsets`"),
)
#: Options that are imported, as suggestions for unknown names.
_HANDLED = (
    "--target-base-path",
    "--target-table",
    "--table-type",
    "--source-class",
    "--op",
    "--enable-sync",
    "hoodie.streamer.source.dfs.root",
    "hoodie.streamer.source.kafka.topic",
)
#: Option of a catalog → option of Hudi's sync.
_CATALOG = {
    "database": "hoodie.datasource.hive_sync.database",
    "hive.metastore.uris": "hoodie.datasource.hive_sync.metastore.uris",
}
_NEW_TABLE = "headrace loads a new table; `--take-over` continues the one of Hudi Streamer"


def import_streamer(
    jobs: Sequence[Settings], report: Report, bootstrap_servers: str | None, *, take_over: bool = False
) -> Block:
    """Return the pipeline without its name. ConfigError for jobs that do not fit together. ``take_over``: it continues their tables."""
    draft, rules = Block(), [Block() for _ in jobs]
    roots = [find_option(job, _ROOT) for job in jobs]
    topics = [find_option(job, _TOPIC) for job in jobs]
    if all(roots):
        source = _read_files(jobs, rules, report)
    elif all(topics):
        source = _read_kafka(jobs, rules, report, bootstrap_servers)
    else:
        fix = (
            "name `hoodie.streamer.source.dfs.root` or `hoodie.streamer.source.kafka.topic`, the same one for all files"
        )
        raise ConfigError("the source of the job is not known", where=jobs[0].place, fix=fix)
    draft.entries["source"] = source
    steps = _read_transforms(jobs)
    sink = _read_sink(jobs, rules, report, take_over=take_over)
    _check_tables(jobs, rules)
    if all(roots):
        _check_topics(jobs, rules)
    draft.entries["tables"] = Blocks(rules)
    if steps:
        draft.entries["transforms"] = Blocks(steps)
    draft.entries["sink"] = Block({"hudi": sink})
    _add_interval(draft, jobs)
    _add_spark(draft, jobs)
    draft.add("checkpoint", "checkpoints", "default: choose a durable folder")
    for job in jobs:
        job.report_replaced(list_comments(draft))
        job.report_variables("the shell has the values, and the pipeline file names the variables")
        _report_rest(job)
    return draft


def find_option(job: Settings, name: str) -> str | None:
    """Return the option of Hudi Streamer that the job has, with its present or its older prefix."""
    return job.find(*(f"{prefix}{name}" for prefix in _PREFIXES))


def _read_files(jobs: Sequence[Settings], rules: Sequence[Block], report: Report) -> Block:
    files, paths, comments = Block(), [], []
    for job, rule in zip(jobs, rules, strict=True):
        key = find_option(job, _ROOT) or ""
        paths.append(job.read(key))
        comments.append(job.cite(key))
        rule.add("source", _find_topic(job.get(key)), job.cite(key))
    has_one = len({path.rstrip("/") for path in paths}) == 1
    for rule, comment in zip(rules, comments, strict=True):
        if has_one:  # Whatever the folders below it.
            rule.add("source", "*", f"{comment}; all files")
    if not has_one:
        why = "the topic of a file is the name of its nearest folder that has other characters than digits and no `=`"
        fix = "check `source:` of the rules, if the files are in other folders below these"
        report.add(Kind.TO_DO, ", ".join(dict.fromkeys(job.place for job in jobs)), (), why, fix)
    files.add("path", paths[0] if has_one else _find_parent(paths), "; ".join(comments))
    owner = next((job for job in jobs if job.get("--source-class")), None)
    kind = owner.get("--source-class").rpartition(".")[2] if owner else ""
    form = next((form for form in _FORMATS if kind.lower().startswith(form)), None)
    if owner and form:
        files.add("format", form, owner.cite("--source-class"))
    elif owner:
        files.add("format", "avro", "default: headrace has no format for the files of the source class")
        why = f"headrace has no format for the files of {kind}"
        owner.reject(["--source-class"], why, f"check `format`: {', '.join(_FORMATS)}", Kind.TO_DO)
    else:
        files.add("format", "avro", "default: the source class is not known")
        fix = "check `format`, or give the command line with --source-class as well"
        report.add(Kind.TO_DO, jobs[0].place, (), "the format of the files is not known", fix)
    if form == "csv":
        _add_csv_options(jobs, files)
    return Block({"files": files})


def _check_topics(jobs: Sequence[Settings], rules: Sequence[Block]) -> None:
    """Raise ConfigError for different folders whose files have one topic, but tables of their own."""
    topics: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for job, rule in zip(jobs, rules, strict=True):
        table = read_values(rule)
        topics.setdefault(table.pop("source"), []).append((job.place, table))
    topics.pop("*", None)
    for topic, found in topics.items():
        if any(table != found[0][1] for _, table in found):
            places = ", ".join(dict.fromkeys(place for place, _ in found))
            fix = "import each job into a pipeline file of its own"
            raise ConfigError(f"the files of these jobs have one topic: {topic}", where=places, fix=fix)


def _add_csv_options(jobs: Sequence[Settings], files: Block) -> None:
    for job in jobs:
        for name in _CSV:
            if (key := find_option(job, f"csv.{name}")) and name not in files.entries:
                value = job.get(key).lower() == "true" if name == "header" else job.read(key)
                files.add(name, value, job.cite(key))


def _read_kafka(
    jobs: Sequence[Settings], rules: Sequence[Block], report: Report, bootstrap_servers: str | None
) -> Block:
    kafka = Block()
    ClientInputs(jobs, bootstrap_servers, report, bare_options=_CONSUMER).write(kafka)
    topics, comments, source = [], [], Block({"kafka": kafka})
    for job, rule in zip(jobs, rules, strict=True):
        key = find_option(job, _TOPIC) or ""
        topics.append(job.read(key))
        comments.append(job.cite(key))
        rule.add("source", job.read(key), job.cite(key))
        for name, option in _LIMITS.items():
            if limit := find_option(job, name):
                kafka.add(option, int(job.get(limit)) if job.get(limit).isdigit() else job.read(limit), job.cite(limit))
        if job.get("auto.offset.reset").lower() in _STARTS:
            kafka.add("startingOffsets", job.get("auto.offset.reset").lower(), job.cite("auto.offset.reset"))
    kafka.add("subscribe", list(dict.fromkeys(topics)), "; ".join(comments))
    source.entries["value"] = _read_format(jobs)
    return source


def _read_format(jobs: Sequence[Settings]) -> Line | Block:
    """Return the format of the values. ConfigError for jobs with different ones."""
    kinds = {job.place: _find_format(job) for job in jobs}
    if len(set(kinds.values())) > 1:
        fix = "import each job into a pipeline file of its own"
        raise ConfigError("the jobs read records of different formats", where=", ".join(kinds), fix=fix)
    with_registry = [job for job in jobs if find_option(job, _REGISTRY)]
    if "json" in kinds.values() or not with_registry:
        for job in with_registry:
            job.reject(
                [find_option(job, _REGISTRY) or ""], "JSON records name no schema; headrace finds their types itself"
            )
        owner = next((job for job in jobs if "Json" in job.get("--source-class")), None)
        return Line("json", owner.cite("--source-class") if owner else "default: no job has a schema registry")
    registry = Block()
    for job in reversed(with_registry):
        address = find_option(job, _REGISTRY) or ""
        has_path = "/subjects/" in job.get(address)
        text = job.read(address, " to the address without its path `/subjects/…`" if has_path else "")
        registry.add("registry", re.sub(r"/subjects/.*", "", text), job.cite(address))
    return Block({"avro": registry})


def _find_format(job: Settings) -> str:
    """Return the format of the records by the source class; without one, by the registry."""
    kind = job.get("--source-class").rpartition(".")[2]
    if "Json" in kind:
        return "json"
    is_known = ("Avro" in kind or "Debezium" in kind) and find_option(job, _REGISTRY)
    if kind and not is_known:
        why = f"headrace has no format for the records of {kind} without the registry of a schema"
        job.add_to_do(["--source-class"], why, "check `value:`: json or avro")
    if not kind and find_option(job, _REGISTRY):
        fix = "check `value:`, or give the command line with --source-class as well"
        job.add_to_do((), "the source class is not known; a registry suggests avro", fix)
    return "avro" if find_option(job, _REGISTRY) else "json"


def _read_transforms(jobs: Sequence[Settings]) -> list[Block]:
    """Return the transform of Debezium's change events into rows; report jobs whose records may be such events."""
    found = [(job, find_debezium(job)) for job in jobs]
    for job, key in found:
        if key and key != "--source-class":
            why = "the payload class is for records of Debezium, so the pipeline makes rows of change events"
            job.add_to_do([key], why, "remove `unwrap`, if the records have no `before` and `after`")
        elif key is None and "Parquet" not in job.get("--source-class"):
            why = "the fields of the records are the columns of the table; Debezium's change events have `before` and `after`"
            job.add_to_do([], why, "`transforms: [unwrap: {}]`, if the table has the rows of change events")
    comment = "; ".join(job.cite(key) for job, key in found if key)
    return [Block({"unwrap": Block(comment=comment)})] if comment else []


def _read_sink(jobs: Sequence[Settings], rules: Sequence[Block], report: Report, *, take_over: bool) -> Block:
    sink = Block()
    if take_over:
        add_folders(jobs, rules, sink)
    else:
        _add_new_folder(jobs, sink)
        report.add(Kind.TO_DO, jobs[0].place, (), _NEW_TABLE, "choose a `path` that no other writer uses")
    for job, rule in zip(jobs, rules, strict=True):
        options = read_table_options(job, rule, take_over=take_over)
        if options.entries:
            rule.entries["sink"] = Block({"hudi": options})
    _add_sync(sink, jobs)
    return sink


def _check_tables(jobs: Sequence[Settings], rules: Sequence[Block]) -> None:
    """Raise ConfigError for jobs that write one table with different options."""
    tables: dict[str, dict[str, Any]] = {}
    for job, rule in zip(jobs, rules, strict=True):
        values = read_values(rule)
        values.pop("source", None)
        for table in {job.get("--target-base-path").rstrip("/"), values.get("target", "")} - {""}:
            tables.setdefault(table, {})[job.place] = values
    for table, options in tables.items():
        first, *others = options.values()
        if any(other != first for other in others):
            fix = "give the jobs the same key and the same options, or import one of them"
            what = f"these jobs write the table {table!r} with different options"
            raise ConfigError(what, where=", ".join(options), fix=fix)


def _add_new_folder(jobs: Sequence[Settings], sink: Block) -> None:
    base = next((job for job in jobs if job.get("--target-base-path")), None)
    if base:
        sink.add("path", *base.read_new_folder("--target-base-path"))
        for job in jobs:
            job.ignore(["--target-base-path"], "all tables are in the new folder of the first job")
    else:
        sink.add("path", "hudi/", "default: no command line names the folder")


def _add_sync(sink: Block, jobs: Sequence[Settings]) -> None:
    """Add the catalog of the first job that has one."""
    keys = (
        "--enable-sync",
        "--enable-hive-sync",
        "hoodie.datasource.hive_sync.enable",
        "hoodie.datasource.meta.sync.enable",
    )
    for job in jobs:
        key = next((key for key in keys if job.get(key).lower() == "true"), None)
        if key and "sync" not in sink.entries:
            is_glue = "Glue" in job.get("--sync-tool-classes")
            catalog = Block(comment=job.cite(key, "--sync-tool-classes"))
            for option, name in _CATALOG.items():
                if job.get(name) and not (is_glue and "uris" in option):
                    catalog.add(option, job.read(name), job.cite(name))
            sink.entries["sync"] = Block({"glue" if is_glue else "hive": catalog})
        elif not key:
            names = [name for name in job.list_keys("hoodie.datasource.hive_sync.") if name in job.list_remaining()]
            job.reject(names, "no option switches the sync on", "`sync: {hive: {database: …}}`, or `glue`", Kind.TO_DO)


def _add_interval(draft: Block, jobs: Sequence[Settings]) -> None:
    for job in jobs:
        key = "--min-sync-interval-seconds"
        if job.get(key).isdigit() and job.get(key) != "0":
            draft.add("min.sync.interval", f"{job.get(key)} seconds", job.cite(key))


def _add_spark(draft: Block, jobs: Sequence[Settings]) -> None:
    spark = Block()
    for job in jobs:
        for key in job.list_keys("spark."):
            if key in (
                "spark.serializer",
                "spark.sql.extensions",
                "spark.kryo.registrator",
                "spark.sql.catalog.spark_catalog",
            ):
                job.ignore([key], "headrace sets it for the sink")
            else:
                spark.add(key, job.read(key), job.cite(key))
    if spark.entries:
        draft.entries["spark"] = spark


def _report_rest(job: Settings) -> None:
    for patterns, why in _WITHOUT_MEANING:
        job.ignore_matches(patterns, why)
    for patterns, why, fix in _REJECTED:
        job.reject([key for key in job.list_remaining() if any(fnmatchcase(key, glob) for glob in patterns)], why, fix)
    job.report_unknown(_HANDLED)


def _find_topic(path: str) -> str:
    """Return the nearest folder of a path that is not a partition, which names the topic of the files in it."""
    parts = [part for part in path.split("/") if part and "=" not in part and not part.isdigit()]
    return parts[-1] if parts else "*"


def _find_parent(paths: Sequence[str]) -> str:
    split = [path.split("/") for path in paths]
    common: list[str] = []
    for level in zip(*split, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return "/".join(common) + "/"
