"""Options of one table of Hudi Streamer as a rule of ``tables:``."""

from __future__ import annotations

from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Line
from headrace_import.settings import Settings

_WRITE = "hoodie.datasource.write."
_KEY, _PARTITION = f"{_WRITE}recordkey.field", f"{_WRITE}partitionpath.field"
_TYPE = ("--table-type", f"{_WRITE}table.type", "hoodie.table.type")
#: Options with the field by which Hudi Streamer orders records.
_ORDERING = (
    "--source-ordering-field",
    f"{_WRITE}precombine.field",
    "hoodie.table.precombine.field",
    "hoodie.table.ordering.fields",
)
#: Options by which Hudi Streamer merges records.
_MERGING = (
    "--payload-class",
    "--merge-mode",
    f"{_WRITE}payload.class",
    "hoodie.write.record.merge.mode",
    "hoodie.record.merge.mode",
    "hoodie.compaction.payload.class",
)
_DUPLICATES = ("--filter-dupes", f"{_WRITE}insert.drop.duplicates")
_GENERATOR = (f"{_WRITE}keygenerator.class", f"{_WRITE}keygenerator.type")
#: Key generators, by class and type, that make partitions of times, and those that make none.
_OF_TIMES, _WITHOUT_PARTITIONS = (
    ("TimestampBased", "TIMESTAMP"),
    ("Nonpartitioned", "NON_PARTITION", "GlobalDelete", "GLOBAL_DELETE"),
)
_TIMED_OPTION = "keygen.timebased."
_OWN = (
    *_GENERATOR,
    "hoodie.populate.meta.fields",
    f"{_WRITE}drop.partition.columns",
)
#: Indexes that find a row in all partitions.
_GLOBAL = ("GLOBAL_BLOOM", "GLOBAL_SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_INDEX")
_SYNC = "hoodie.datasource.hive_sync."


def find_debezium(job: Settings) -> str | None:
    """Return the option that names the records of Debezium: its source class, or a payload class."""
    return next((key for key in ("--source-class", *_MERGING) if "Debezium" in job.get(key)), None)


def read_table_options(job: Settings, rule: Block, *, take_over: bool) -> Block:
    """Complete the rule with key and target, and return the options of the sink. ``take_over``: the rule has its target already."""
    _add_target(job, rule, take_over=take_over)
    if job.get(_KEY):
        rule.add("key", [name.strip() for name in job.get(_KEY).split(",")], job.cite(_KEY))
    options = Block()
    kind = job.find(*_TYPE)
    if kind:
        options.add("table.type", job.read(kind), job.cite(kind))
    _add_operation(job, options)
    _report_ordering(job)
    _report_duplicates(job, options)
    job.reject(
        [k for k in _OWN if k in job.list_remaining()], "headrace makes the record keys and keeps the partition columns"
    )
    _check_index(job)
    _add_partition(job, options)
    _add_index(job, options, take_over=take_over)
    job.ignore(
        [k for k in job.list_keys("hoodie.") if not job.get(k) and k in job.list_remaining()], "the option has no value"
    )
    for key in job.list_keys("hoodie."):
        if key in job.list_remaining() and not key.startswith(
            ("hoodie.streamer.", "hoodie.deltastreamer.", _SYNC, "hoodie.datasource.meta.sync")
        ):
            options.add(key, job.read(key), job.cite(key))
    return options


def _add_target(job: Settings, rule: Block, *, take_over: bool) -> None:
    key = job.find("--target-table", "hoodie.table.name", f"{_SYNC}table", "hoodie.datasource.write.table.name")
    if key is None:
        return
    database = "" if "." in job.get(key) else job.get(f"{_SYNC}database")
    target = f"{database}.{job.read(key)}" if database else job.read(key)
    if take_over:
        job.ignore([key, f"{_SYNC}database"], "the folder of the table names it")
    else:
        rule.add("target", target, job.cite(key, f"{_SYNC}database"))
    names = ("hoodie.table.name", f"{_SYNC}table", f"{_WRITE}table.name")
    job.ignore([name for name in names if name in job.list_remaining()], "`target` names the table")


def _add_operation(job: Settings, options: Block) -> None:
    key = job.find("--op", f"{_WRITE}operation")
    if key is None:
        return
    if job.get(key).upper() == "UPSERT":
        options.add("mode", "upsert", job.cite(key))
    elif job.get(key).upper() in ("INSERT", "BULK_INSERT"):
        options.add("mode", "append", job.cite(key))
    elif "${" in job.get(key):
        job.reject([key], "a variable has the operation", "`mode` is upsert, append or changelog", Kind.TO_DO)
    else:
        job.reject([key], "headrace has no such operation", "`mode` is upsert, append or changelog", Kind.TO_DO)
    job.ignore([k for k in (f"{_WRITE}operation",) if k in job.list_remaining()], "`mode` has the operation")


def _report_ordering(job: Settings) -> None:
    """Report the ordering of records. Records without a position in a database's log have the order of their offsets."""
    if find_debezium(job):
        job.ignore([*_ORDERING, *_MERGING], "headrace orders changes by their position in the database's log")
        return
    why = "headrace orders records without a position in a database's log by their offsets: a late record replaces a newer row"
    fix = "check that producers send the records of a key in their order, to one partition"
    job.reject([key for key in _ORDERING if job.get(key)], why, fix, Kind.TO_DO)
    why = "headrace replaces the row by the last record, whatever a payload class or merger does"
    job.reject([key for key in _MERGING if job.get(key)], why, "check its rules for merging and deletes", Kind.TO_DO)


def _report_duplicates(job: Settings, options: Block) -> None:
    """Report that records with keys of the table are left out, which a table that only appends cannot do."""
    line = options.entries.get("mode")
    is_append = isinstance(line, Line) and line.value == "append"
    active = [key for key in _DUPLICATES if job.get(key).lower() == "true"]
    if is_append and active:
        why = "rows are appended, also with a key that the table has"
        job.reject(active, why, "`mode: upsert` keeps one row for each key, the last one", Kind.TO_DO)
    elif active:
        why = "a record with a key that the table has replaces the row; Hudi Streamer keeps the first one"
        job.reject(active, why, "check that a key has one record, or that the last one is right", Kind.TO_DO)
    job.ignore(_DUPLICATES, "duplicates are not left out")


def _add_partition(job: Settings, options: Block) -> None:
    """Set the partition columns, without the types that CustomKeyGenerator has after their names."""
    columns = _read_partition(job)
    job.ignore([] if columns else [_PARTITION], "the key generator makes no partitions")
    timed = [key for key in job.list_keys("hoodie.") if _TIMED_OPTION in key]
    fields = [field.strip().partition(":") for field in columns.split(",")]
    kinds = {kind.upper() for _, _, kind in fields}
    if _has_generator(job, _OF_TIMES) or kinds >= {"TIMESTAMP"}:
        why = "the partitions have the values of the column, not the times that the key generator makes of them"
        fix = "a column with the time of the partition: `compute`"
        job.reject([_PARTITION, *timed], why, fix, Kind.TO_DO)
    else:
        job.ignore(timed, "the key generator makes no times")
    if columns:
        is_typed = kinds <= {"SIMPLE", "TIMESTAMP"}
        names = ",".join(name for name, _, _ in fields) if is_typed else job.read(_PARTITION)
        options.add(_PARTITION, names, job.cite(_PARTITION))


def _read_partition(job: Settings) -> str:
    """Return the partition columns that the job has; a key generator may ignore the option."""
    return "" if _has_generator(job, _WITHOUT_PARTITIONS) else job.get(_PARTITION)


def _has_generator(job: Settings, starts: tuple[str, ...]) -> bool:
    """Return whether the class or the type of the key generator starts with one of these names."""
    return any(job.get(key).rpartition(".")[2].startswith(starts) for key in _GENERATOR)


def _check_index(job: Settings) -> None:
    key = "hoodie.index.type"
    if _read_partition(job) and job.get(key) and job.get(key).upper() not in _GLOBAL:
        fix = "without the option, headrace uses GLOBAL_SIMPLE"
        job.reject([key], "the index searches one partition, and a row may move to another", fix)


def _add_index(job: Settings, options: Block, *, take_over: bool) -> None:
    """Set an index for an unpartitioned table that is taken over, because its files are not buckets."""
    key = "hoodie.index.type"
    if not take_over or _read_partition(job) or (job.get(key) and job.get(key).upper() != "BUCKET"):
        return
    options.add(key, "SIMPLE", "--take-over: the files of the table are not headrace's buckets")
    job.ignore(
        [name for name in job.list_keys("hoodie.bucket.index.") if name in job.list_remaining()], "the index is SIMPLE"
    )
    job.ignore([key], "the index is SIMPLE")
