"""Routes and transforms of Flink CDC as rules of ``tables:`` and transforms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.sdk import ConfigError
from headrace_import.connect.smt import NotImportableError, split_list
from headrace_import.connect.topics import quote_pattern
from headrace_import.flink.projections import parse_projection, translate_expression
from headrace_import.flink.table_patterns import TablePattern, TableSelection, parse_patterns
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Line
from headrace_import.settings import Settings

_TABLE_NAME = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)
_SOFT_DELETE = "converter-after-transform"
_ALL_ROUTES = (
    "Flink CDC (from 3.2) writes a table to the sink tables of all its routes, and headrace to that of the first; an earlier route "
    "has some of these tables, or all"
)
#: The last parts of a topic. In topics of MySQL, the database is in the place of the schema.
_PARTS = ("{db}", "{schema}", "{table}")


@dataclass
class CdcTables:
    """Routes and transforms of a pipeline.

    ``prefix``: that of the topics; ``levels``: number of parts of the names; ``is_first_match``: only the first route of a table
    applies.
    """

    prefix: str
    levels: int
    is_first_match: bool = False
    routes: list[tuple[TablePattern, str]] = field(default_factory=list)
    rules: list[Block] = field(default_factory=list)
    steps: list[Block] = field(default_factory=list)
    partitions: dict[str, list[str]] = field(default_factory=dict)
    #: Column → field of the event, for ``unwrap``, with the option that gives them.
    added_fields: dict[str, str] = field(default_factory=dict)
    unwrap_comment: str = ""

    def add_route(self, route: Settings) -> None:
        """Add rules for topics, and report topics that an earlier route has, too. The first rule of a topic applies."""
        route.ignore(["description"], "a description")
        target, symbol = route.get("sink-table"), route.get("replace-symbol")
        target = re.sub(r"\$(\d)", r"{\1}", target.replace(symbol, "{table}") if symbol else target)
        if not _TABLE_NAME.fullmatch(re.sub(r"\{\w+\}", "x", target)):
            route.reject(route.list_keys(), "its sink-table is not the name of a table", "write a rule in `tables:`")
            return
        selection = self._parse(route)
        if not self.is_first_match and any(
            TableSelection((pattern,)).overlaps(selection) for pattern, other in self.routes if other != target
        ):
            fix = "write a second pipeline file with this route alone"
            route.reject(route.list_keys(), _ALL_ROUTES, fix)
        for pattern in selection.patterns:
            rule = Block()
            topic = f"{self.prefix}.{'.'.join(pattern.parts)}"
            if not pattern.is_name:
                topic = f"/{'[.]'.join([quote_pattern(self.prefix), *pattern.parts])}/"
            rule.add("source", topic, route.cite("source-table"))
            rule.add("target", target, route.cite("sink-table", "replace-symbol"))
            self.routes.append((pattern, target))
            self.rules.append(rule)

    def finish_rules(self) -> list[Block]:
        """Return the rules, with the last one for tables without a route."""
        rule = Block()
        rule.add("source", "*", "all other topics" if self.rules else "all topics")
        rule.add("target", ".".join(_PARTS[-self.levels :]), "Flink CDC keeps the names")
        return [*self.rules, rule]

    def add_transforms(self, transforms: Sequence[Settings]) -> None:
        """Add the steps of the transforms. Of several transforms of a table, Flink CDC applies the first whose filter is true."""
        earlier: list[TableSelection] = []
        for transform in transforms:
            transform.ignore(["description"], "a description")
            selection = self._parse(transform)
            before = transform.snapshot()
            try:
                if transform.get("filter"):
                    self._check_alone(transform, transforms)
                tables, steps = self._find_tables(selection), self._make_steps(transform)
                excluded = self._find_excluded(selection, earlier)
            except NotImportableError as error:
                transform.restore(before)
                transform.reject(transform.list_remaining(), error.why, error.fix)
            else:
                self._add_steps(transform, steps, tables, excluded)
                self._report_rest(transform, tables)
            earlier.append(selection)

    def has_soft_deletes(self, transforms: Sequence[Settings]) -> bool:
        """Return whether deleted rows of all tables stay; report it if only those of some do."""
        found = [transform for transform in transforms if transform.get(_SOFT_DELETE).upper() == "SOFT_DELETE"]
        is_of_all = bool(found) and found[0] is transforms[0] and self._parse(found[0]).is_all
        for transform in found:
            if is_of_all:
                transform.ignore([_SOFT_DELETE], "`unwrap` keeps deleted rows")
            else:
                fix = "`unwrap: {tables: […], delete.tombstone.handling.mode: rewrite}`"
                transform.reject([_SOFT_DELETE], "deleted rows of some tables stay", fix, Kind.TO_DO)
        return is_of_all

    def _parse(self, section: Settings) -> TableSelection:
        where = f"{section.place}, {section.spell('source-table')}"
        patterns = dict.fromkeys(parse_patterns(section.get("source-table"), self.levels, where))
        if not patterns:
            raise ConfigError("it selects no tables", where=where, fix="name the tables, such as `db.table`")
        return TableSelection(tuple(patterns))

    def _check_alone(self, transform: Settings, transforms: Sequence[Settings]) -> None:
        """Raise if another transform has rows of the same tables: a filter of headrace would leave them out."""
        selection = self._parse(transform)
        if any(other is not transform and self._parse(other).overlaps(selection) for other in transforms):
            why = "other transforms apply to the rows of these tables that its filter leaves out"
            raise NotImportableError(why, "combine them: `compute` with CASE, and one `filter`")

    def _add_steps(self, transform: Settings, steps: list[Block], tables: list[str], excluded: list[str]) -> None:
        for step in steps:
            (options,) = step.entries.values()
            assert isinstance(options, Block)
            options.comment = "" if tables else transform.cite("source-table")
            if tables:
                options.add("tables", tables, transform.cite("source-table"))
            if excluded:
                options.add("tables.exclude", excluded, "an earlier transform of Flink CDC has these tables")
        self.steps += steps

    def _make_steps(self, transform: Settings) -> list[Block]:
        steps = []
        projection, comment = parse_projection(transform.get("projection")), transform.cite("projection")
        if projection.added and not self._parse(transform).is_all:
            fix = "`unwrap: {tables: […], add.fields: source.table}`"
            raise NotImportableError("a field of the event becomes a column of some tables", fix)
        self.added_fields |= projection.added
        if projection.added:
            self.unwrap_comment = comment
        if projection.computed:
            columns = Block({name: Line(sql) for name, sql in projection.computed.items()}, comment)
            steps.append(Block({"compute": Block({"columns": columns})}))
        if transform.get("filter"):
            condition = Block()
            condition.add("condition", translate_expression(transform.get("filter")), transform.cite("filter"))
            steps.append(Block({"filter": condition}))
        if projection.names and not projection.keeps_all:
            steps.append(Block({"keep": Block({"columns": Line(projection.names, comment)})}))
        return steps

    def _find_excluded(self, selection: TableSelection, earlier: Sequence[TableSelection]) -> list[str]:
        """Return names or globs of the targets that earlier transforms have. NotImportableError if an earlier one has all."""
        known = [other for other in earlier if other.overlaps(selection)]
        if any(other.is_all for other in known):
            raise NotImportableError("an earlier transform applies to all tables", "one transform for each table")
        names, own = [name for other in known for name in self._find_tables(other)], self._find_tables(selection)
        if own and set(own) <= set(names):
            raise NotImportableError("earlier transforms have all of its tables", "one transform for each table")
        return names

    def _find_tables(self, selection: TableSelection) -> list[str]:
        """Return names or globs of the targets; an empty list for all tables. NotImportableError if they are not known."""
        if selection.is_all:
            return []
        return list(dict.fromkeys(self._find_table(pattern) for pattern in selection.patterns))

    def _find_table(self, pattern: TablePattern) -> str:
        if pattern.is_name:
            routed = (
                known.fill_target(target, pattern.text) for known, target in self.routes if known.matches(pattern.text)
            )
            return next(routed, pattern.text)
        same = [target for known, target in self.routes if known == pattern]
        if same:
            return re.sub(r"\{\w+\}", "*", same[0])
        if pattern.glob is None or any(known.overlaps(pattern) for known, _ in self.routes):
            raise NotImportableError(
                "no glob names its tables after the routes", "add it with `tables:`, which compares the target"
            )
        return pattern.glob

    def _report_rest(self, transform: Settings, tables: list[str]) -> None:
        if transform.get("partition-keys") and tables:
            self.partitions |= dict.fromkeys(tables, split_list(transform.get("partition-keys")))
            transform.ignore(["partition-keys"], "`partition.by` of the sink has them")
        else:
            transform.reject(
                ["partition-keys"], "all tables get one partitioning", "`partition.by` of the sink", Kind.TO_DO
            )
        fix = "set `message.key.columns` of the Debezium connector, or `key:` for records without a key"
        transform.reject(["primary-keys"], "headrace identifies a row by the key of its records", fix, Kind.TO_DO)
        transform.reject(["table-options"], "options of one table", "`sink:` in a rule of `tables:`")
        transform.ignore(["source-table"], "it has no steps")
        transform.report_unknown(["projection", "filter", "primary-keys", "partition-keys", "table-options"])
