"""Single message transforms that change columns of rows."""

from __future__ import annotations

import re

from headrace_import.connect.smt import (
    Imported,
    NotImportableError,
    Smt,
    copy_options,
    make_step,
    split_pairs,
)
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Line

#: Option of several SMTs of Kafka Connect 3.8 and later.
_NULLS = "replace.null.with.default"
#: Quoted text of a SimpleDateFormat, and its letters that patterns of Spark do not have, or for something else.
_TEXT = re.compile(r"'[^']*'")
#: Name of a column that SQL takes without quotes.
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OTHER_LETTERS = frozenset("YwWuF")
#: Letters of a SimpleDateFormat whose meaning depends on their number: only `SSS` and `yyyy` have the same meaning in Spark.
_FRACTION, _SHORT_YEAR = re.compile(r"(?<!S)(S{1,2}|S{4,})(?!S)"), re.compile(r"(?<!y)y{1,2}(?!y)")


def import_cast(smt: Smt) -> Imported:
    """Import types of columns."""
    pairs = split_pairs(smt.get("spec")) if ":" in smt.get("spec") else {}
    if not pairs:
        raise NotImportableError(
            "a cast of a whole value has no meaning for rows", "name columns: `cast: {columns: {a: int}}`"
        )
    step, options = make_step(smt, "cast")
    options.entries["columns"] = _mapping(smt, pairs, "spec")
    return _finish(smt, step)


def import_replace_field(smt: Smt) -> Imported:
    """Import columns to keep, to remove and to rename, in the order of ReplaceField. ``exclude`` precedes ``include``."""
    result = Imported()
    include = "include" if smt.get("include") else "whitelist"
    exclude = "exclude" if smt.get("exclude") else "blacklist"
    included, excluded = smt.list_items(include), smt.list_items(exclude)
    if included and not set(included) - set(excluded):
        raise NotImportableError("its lists leave no column", "name a column in `keep`")
    if included:
        step, options = make_step(smt, "keep")
        options.add("columns", [name for name in included if name not in excluded], smt.cite(include, exclude))
        result.steps.append(step)
    elif excluded:
        step, options = make_step(smt, "drop")
        options.add("columns", excluded, smt.cite(exclude))
        result.steps.append(step)
    if names := _select_renames(smt, set(included), set(excluded)):
        step, options = make_step(smt, "rename")
        options.entries["columns"] = _mapping(smt, names, "renames")
        result.steps.append(step)
    if not result.steps:
        raise NotImportableError("it has none of include, exclude and renames")
    _ignore_nulls(smt)
    return result


def _select_renames(smt: Smt, included: set[str], excluded: set[str]) -> dict[str, str]:
    """Return the new names of the columns that stay, and report the others: ReplaceField removes columns by their old names."""
    names = split_pairs(smt.get("renames"))
    removed = {name for name in names if name in excluded or (included and name not in included)}
    if taken := sorted({names[name] for name in removed} & (included - excluded)):
        why = f"ReplaceField gives {', '.join(taken)} the value of a removed column, if the records have schemas"
        raise NotImportableError(why, "`keep` and `rename` of the column that has the value")
    if removed:
        why = f"the lists remove {', '.join(sorted(removed))}, so the new name has no effect"
        smt.settings.reject([f"{smt.prefix}renames"], why, kind=Kind.NO_MEANING)
    return {name: new for name, new in names.items() if name not in removed}


def import_insert_field(smt: Smt) -> Imported:
    """Import columns to add."""
    step, options = make_step(smt, "insert")
    copy_options(smt, options, "static.field", "topic.field", "partition.field", "offset.field", "timestamp.field")
    if smt.get("static.field"):
        # A secret that becomes a column is one of the column's name.
        value = smt.read("static.value", of=smt.get("static.field"))
        options.add("static.value", value, smt.cite("static.value"))
    if not options.entries:
        raise NotImportableError("it names no field to insert")
    return _finish(smt, step)


def import_timestamp_converter(smt: Smt) -> Imported:
    """Import the conversion of a time."""
    if not smt.get("field") or not smt.get("target.type"):
        raise NotImportableError("a conversion of a whole value has no meaning for rows", "name a column: `timestamp`")
    _refuse_pattern(_TEXT.sub("", smt.get("format")), is_read=smt.get("target.type") != "string")
    step, options = make_step(smt, "timestamp")
    copy_options(smt, options, "field", "target.type", "format", "unix.precision")
    return _finish(smt, step)


def _refuse_pattern(pattern: str, *, is_read: bool) -> None:
    """Raise NotImportableError for a pattern, without quoted text, that has another meaning in Spark. ``is_read``: it reads strings."""
    if letters := sorted(set(pattern) & _OTHER_LETTERS):
        why = f"the letters {', '.join(letters)} of its format have another meaning in Spark"
        raise NotImportableError(why, "`timestamp` with a pattern of Spark: `y` is the year, `d` the day of the month")
    if _FRACTION.search(pattern):
        why = "`S` of its format is a number of milliseconds, and in Spark a digit of the fraction of a second"
        raise NotImportableError(
            why, "`timestamp`, if the strings have a digit for each `S`: `SSS` is the same in both"
        )
    if is_read and _SHORT_YEAR.search(pattern):
        why = "a year of two digits is one from 80 years ago to 20 years from now, and in Spark one from 2000 to 2099"
        raise NotImportableError(why, "`timestamp`, if no year is before 2000; otherwise `compute` the century")


def import_flatten(smt: Smt) -> Imported:
    """Import structs to flatten."""
    step, options = make_step(smt, "flatten")
    copy_options(smt, options, "delimiter")
    return _finish(smt, step)


def import_mask_field(smt: Smt) -> Imported:
    """Import columns to mask."""
    columns = smt.list_items("fields")
    if not columns:
        raise NotImportableError("it names no fields")
    step, options = make_step(smt, "mask")
    rules = Block(comment=smt.cite("fields"))
    for column in columns:
        rule = Block()
        if smt.get("replacement"):
            rule.add("replacement", smt.read("replacement"), smt.cite("replacement"))
            rule.add("keep_type", value=True)
        else:
            rule.add("empty", value=True)
        rules.entries[column] = rule
    options.entries["columns"] = rules
    return _finish(smt, step)


def import_unwrap(smt: Smt) -> Imported:
    """Import rows from envelopes, as ExtractNewRecordState."""
    step, options = make_step(smt, "unwrap")
    copy_options(
        smt,
        options,
        "delete.tombstone.handling.mode",
        "delete.handling.mode",
        "drop.tombstones",
        "add.fields",
        "add.fields.prefix",
        "add.headers",
        "add.headers.prefix",
        "drop.fields.header.name",
        "drop.fields.keep.schema.compatible",
    )
    for option in ("add.fields", "add.headers"):
        if smt.get(option):
            options.add(option, ",".join(smt.list_items(option)), smt.cite(option))
    if smt.get(_NULLS).lower() == "false":
        options.add(_NULLS, value=False, comment=smt.cite(_NULLS))
    if smt.get("drop.fields.from.key").lower() == "false":
        options.add("drop.fields.from.key", value=False, comment=smt.cite("drop.fields.from.key"))
    _reject(smt, "drop.fields.from.key", "a key column identifies the row and cannot be dropped")
    _reject(
        smt,
        "route.by.field",
        "a delete may lack the column",
        "`route.by.field` in `tables:`, with a field of the event",
    )
    _reject(smt, _NULLS, "a null of the database stays null", "`compute: {columns: {size: 'coalesce(size, 0)'}}`")
    return Imported([step])


def remove_rewritten_rows(options: Block, comment: str) -> None:
    """Change an unwrap that keeps deletes as rows, for a sink that applies the operations of rows."""
    line = options.entries.get("delete.tombstone.handling.mode") or options.entries.get("delete.handling.mode")
    if isinstance(line, Line) and line.value == "rewrite":
        comments = f"{line.comment}; {comment}"
        options.entries.pop("delete.handling.mode", None)
        tombstones = options.entries.pop("drop.tombstones", None)
        if isinstance(tombstones, Line):
            comments += f"; {tombstones.comment}"
        options.add("delete.tombstone.handling.mode", "rewrite-with-tombstone", comments)


def keep_deleted_rows(options: Block) -> None:
    """Change the options of an unwrap for a sink that cannot remove rows."""
    names = ("delete.tombstone.handling.mode", "delete.handling.mode", "drop.tombstones")
    lines = {name: line for name in names if isinstance(line := options.entries.get(name), Line)}
    current, legacy = lines.get(names[0]), lines.get(names[1])
    rewrites = str(current.value if current else legacy.value if legacy else "").startswith("rewrite")
    is_drop = (current or legacy or Line("")).value == "drop"
    if current and current.value in ("drop", "rewrite"):
        return
    for name in lines:
        del options.entries[name]
    comments = [line.comment for line in lines.values()]
    if not is_drop or "drop.tombstones" in lines:
        comments.append("the sink only appends")
    options.add(names[0], "rewrite" if rewrites else "drop", "; ".join(comments))


def import_extract_field(smt: Smt) -> Imported:
    """Import rows from envelopes, if the field is `after`."""
    if smt.is_of_key:
        raise NotImportableError("a key column has a name here", "`key:` in `tables:` names the key columns")
    if smt.get("field") != "after":
        raise NotImportableError("a row cannot become one of its fields", "use `compute` and `keep`")
    step, options = make_step(smt, "unwrap")
    options.comment = smt.cite("type", "field")
    return _finish(smt, step)


def import_iceberg_debezium(smt: Smt) -> Imported:
    """Import Iceberg's DebeziumTransform: rows of the table that a pattern of database or schema and table names."""
    step, _ = make_step(smt, "unwrap")
    rule = Block()
    rule.add("source", "*", smt.cite("type"))
    target = smt.get("cdc.target.pattern", "{db}.{table}").replace("{db}", "{schema}")
    rule.add("target", target, smt.cite("cdc.target.pattern"))
    return Imported([step], [rule])


def import_filter(smt: Smt) -> Imported:
    """Import records to leave out by a predicate."""
    if not smt.get("predicate"):
        raise NotImportableError("without a predicate it would drop every record")
    step, _ = make_step(smt, "filter")
    return Imported([step])


def import_header_from(smt: Smt) -> Imported:
    """Import fields that become headers: the row loses them, or nothing changes."""
    if smt.get("operation", "copy").lower() != "move":
        raise NotImportableError("a table has no headers, and the row keeps its columns", kind=Kind.NO_MEANING)
    step, options = make_step(smt, "drop")
    options.add("columns", smt.list_items("fields"), smt.cite("fields", "operation"))
    smt.settings.ignore_matches([f"{smt.prefix}headers"], "a table has no headers")
    return _finish(smt, step)


def import_header_to_value(smt: Smt) -> Imported:
    """Import columns with the values of headers."""
    step, options = make_step(smt, "insert")
    for name in ("headers", "fields"):
        options.add(name, smt.list_items(name), smt.cite(name))
    smt.settings.ignore_matches([f"{smt.prefix}operation"], "a table has no headers")
    return Imported([step])


def import_timezone_converter(smt: Smt) -> Imported:
    """Import columns whose times become local times of a zone."""
    columns, zone = smt.list_items("include.list"), smt.get("converted.timezone")
    if not columns or any(":" in column for column in columns):
        raise NotImportableError(
            "its list does not name the columns alone",
            f"`compute: {{columns: {{at: \"convert_timezone('UTC', '{zone or 'Europe/Zurich'}', at)\"}}}}`",
        )
    step, options = make_step(smt, "compute")
    names = {name: name if _NAME.fullmatch(name) else f"`{name}`" for name in columns}
    texts = {name: f"convert_timezone('UTC', '{zone}', {quoted})" for name, quoted in names.items()}
    options.entries["columns"] = _mapping(smt, texts, "include.list")
    options.entries["columns"].comment += f"; {smt.cite('converted.timezone')}"
    return Imported([step])


def _reject(smt: Smt, option: str, why: str, fix: str | None = None) -> None:
    key = smt.prefix + option
    if key in smt.settings.list_remaining():
        smt.settings.reject([key], why, fix)


def _finish(smt: Smt, step: Block) -> Imported:
    _ignore_nulls(smt)
    return Imported([step])


def _ignore_nulls(smt: Smt) -> None:
    smt.settings.ignore_matches([smt.prefix + _NULLS], "a null of the database stays null")


def _mapping(smt: Smt, pairs: dict[str, str], option: str) -> Block:
    block = Block(comment=smt.cite(option))
    for name, value in pairs.items():
        block.add(name, value)
    return block
