"""Masking of values in every row image and in the key, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from headrace.sdk import Changes, ConfigError, DataError, Transform, TransformConfig
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import fold_name, list_row_texts, quote_name
from headrace.sdk.conditions import apply_when
from headrace.sdk.options import did_you_mean
from headrace.sdk.rows import list_images, reject_rows, row_scope, row_types
from headrace.sdk.transform import FieldPath
from headrace_transforms.field_masks import HiddenField, find_hidden_fields, hide_fields
from headrace_transforms.mask_rules import EXAMPLES, MaskRule
from headrace_transforms.mask_values import make_mask, make_secrets
from headrace_transforms.row_images import fill_unavailable
from headrace_transforms.value_mask import ValueMask

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Fields of the source block that hold the SQL statement of a change: of MySQL and MariaDB, and of Oracle.
STATEMENTS = ("query", "redo_sql")
#: Columns of the secrets of masks, while a mask is planned.
_SECRET = PREFIX + "secret_"
#: A salt or key with fewer characters causes a warning.
SECRET_CHARACTERS = 16


@dataclass(frozen=True)
class _Hidden:
    """Columns and fields that the rules hide in a table."""

    rules: Mapping[str, MaskRule]
    """Name of the rule → rule."""
    columns: dict[str, str]
    """Column of the row or key → name of its rule."""
    fields: list[HiddenField]
    texts: list[tuple[str, ...]]
    """Columns, or fields in them, that become null: SQL, and texts of whole rows. A masked value may be anywhere in them."""


class MaskConfig(TransformConfig):
    """Columns to hide."""

    columns: dict[FieldPath, MaskRule] = Field(default_factory=dict, min_length=1)
    """Column, or path of a field in it (``address.street``), → rule."""

    tags: dict[str, MaskRule] = Field(default_factory=dict, min_length=1)
    """Tag of the pipeline's ``tags:`` → rule of the columns that have it. A rule in ``columns`` takes precedence."""

    @model_validator(mode="after")
    def _some_rule(self) -> MaskConfig:
        if not self.columns and not self.tags:
            raise ValueError("masks nothing: write `columns: {email: {nullify: true}}`, or select columns by `tags`")
        return self

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:
        kinds = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
        if kind := next((kind for kind in kinds if kind in EXAMPLES), None):
            return "the rules of columns belong below `columns`", f"write `columns: {{{key}: {EXAMPLES[kind]}}}`"
        return None


class Mask(Transform):
    """``mask: {columns: {email: {sha256: {salt: "${env:SALT}"}}}}``."""

    name = "mask"
    api_version = 1
    hides_values = True
    Config = MaskConfig
    config: MaskConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def reads_in(self, table: str | None) -> Collection[str]:
        return [name for name, rule in self.config.columns.items() if rule.applies_to(table)]

    def tables(self) -> Collection[str]:
        return [*super().tables(), *(table for rule in self._list_rules().values() for table in rule.only_in)]

    def tags(self) -> Collection[str]:
        return self.config.tags

    def _list_rules(self) -> dict[str, MaskRule]:
        """Return column or tag → rule."""
        return {**self.config.columns, **{f"the tag {tag}": rule for tag, rule in self.config.tags.items()}}

    def _choose_rules(self, changes: Changes) -> dict[str, MaskRule]:
        """Return column → rule for a table."""
        rules = {name: self.config.columns[name] for name in self.reads_in(changes.table)}
        folded, texts = set(map(fold_name, rules)), _list_row_texts(changes)
        for name, rule in self._list_tagged(changes):
            if fold_name(name) not in folded and name.split(".")[0] not in texts:
                folded.add(fold_name(name))
                rules[name] = rule
        return rules

    def _list_tagged(self, changes: Changes) -> Iterator[tuple[str, MaskRule]]:
        """Yield the tagged columns and fields of a table with their rules. ConfigError for a tag that the pipeline does not have."""
        for tag, rule in self.config.tags.items():
            if tag not in changes.tags:
                raise ConfigError(f"the pipeline has no tag {tag!r}", fix=did_you_mean(tag, changes.tags))
            if rule.applies_to(changes.table):
                yield from ((name, rule) for name in sorted(changes.tags[tag]))

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        hide, found = partial(self._hide, is_conditional=True), self._find(changes)
        columns = [*found.columns, *(field.full_name.split(".")[0] for field in found.fields)]
        return apply_when(changes, hide, condition, columns, unknown=True)

    def rules(self) -> Mapping[str, str]:
        config, limits = self.config, ""
        for word, limit in {
            "in": ", ".join(config.only_tables),
            "not in": ", ".join(config.excluded_tables),
            "when": config.when,
        }.items():
            limits += f" {word} {limit}" if limit else ""
        return {
            name.lower(): (f"{rule} in {', '.join(rule.only_in)}" if rule.only_in else str(rule)) + limits
            for name, rule in self._list_rules().items()
        }

    def warnings(self) -> Iterable[str]:
        for name, rule in self._list_rules().items():
            if rule.secret and len(rule.secret.get_secret_value()) < SECRET_CHARACTERS:
                yield (
                    f"the {'salt' if rule.sha256 or rule.sha512 else 'key'} of {name!r} has fewer than {SECRET_CHARACTERS} characters: "
                    "it can be guessed from the digests, and with it the values"
                )

    def hides(self, changes: Changes) -> Mapping[str, str]:
        return _list_hidden(self._find(changes))

    def apply(self, changes: Changes) -> Changes:
        return self._hide(changes)

    def _hide(self, changes: Changes, *, is_conditional: bool = False) -> Changes:
        """Mask the columns. ``is_conditional``: the stored row may have the raw value of a column that the event omits."""
        session, hidden = changes.frame.sparkSession, self._find(changes)
        found, chosen, fields = hidden.columns, hidden.rules, hidden.fields
        rules = _protect_keys(changes, {column: (name, chosen[name]) for column, name in found.items()})
        _reject_derived(changes, hidden)
        _reject_moved(changes, chosen, _list_hidden(hidden))
        if not rules and not fields and not hidden.texts:
            return changes
        types = {fold_name(column): kind for column, kind in row_types(changes).items()}
        masks = {}
        changes, secrets = _add_secrets(changes, rules, {field.rule: chosen[field.rule] for field in fields})
        masks_of_fields = {
            field: make_mask(field.rule, chosen[field.rule], field.kind, session, secrets[field.rule])
            for field in fields
        }
        changes = hide_fields(changes, masks_of_fields) if fields else changes
        for name, rule in rules.items():
            try:
                masks[name] = make_mask(name, rule, types[fold_name(name)], session, secrets.get(name))
            except DataError:
                if changes.table is not None or not rule.only_in:
                    raise
                masks[name] = make_mask(name, MaskRule(nullify=True), types[fold_name(name)], session)
        changes = _reject_unmaskable(changes, {column: masks[name] for column, name in found.items()})
        result = changes.map_rows(values=masks)
        if is_conditional:
            constants = {column: masks[name].constant for column, name in found.items()}
            result = fill_unavailable(result, {column: c for column, c in constants.items() if c is not None})
        own = [name for name in result.frame.columns if name.startswith(_SECRET)]
        derived = {name: sources for name, sources in result.derived.items() if name not in found}
        return _nullify(replace(result, frame=result.frame.drop(*own), derived=derived), hidden.texts)

    def _find(self, changes: Changes) -> _Hidden:
        """Return what the rules hide. DataError if a table lacks a column of ``only_in``."""
        rules = self._choose_rules(changes)
        columns = changes.find_columns(rules)
        fields = find_hidden_fields(changes, rules, columns)
        names = {*columns.values(), *(field.rule for field in fields)}
        for name in self.reads_in(changes.table):
            if changes.table and self.config.columns[name].only_in and name not in names:
                raise DataError(
                    f"the table {changes.table} has no column {name!r}, which `only_in` requires",
                    fix=did_you_mean(name, changes.row_columns),
                )
        texts = set(_list_row_texts(changes))
        is_tagged = bool(texts and any(name in texts for name, _ in self._list_tagged(changes)))
        hides_texts = bool(columns or fields or is_tagged)
        found = [*_find_statements(changes), *((name,) for name in sorted(texts - columns.keys()))]
        return _Hidden(rules, columns, fields, found if hides_texts else [])


def _list_hidden(hidden: _Hidden) -> Mapping[str, str]:
    """Return column or field → description of its rule."""
    names = hidden.columns | {field.full_name: field.rule for field in hidden.fields}
    rules = {column: str(hidden.rules[name]) for column, name in names.items()}
    return rules | dict.fromkeys(map(".".join, hidden.texts), "nullify")


def _reject_derived(changes: Changes, hidden: _Hidden) -> None:
    """Raise DataError for a column that was computed from a masked column, and is not masked itself."""
    masked = {fold_name(name): name for name in hidden.rules}
    texts = {*hidden.texts, *(_find_statements(changes) if masked else ())}
    masked |= {fold_name(path[0]): ".".join(path) for path in texts}
    columns = set(map(fold_name, hidden.columns.values()))
    for column, reads in changes.derived.items():
        sources = sorted(map(fold_name, reads))
        found = (masked[name] for read in sources for name in masked if _is_part(read, name, is_column=name in columns))
        if column not in hidden.columns and column in changes.row_columns and (source := next(found, None)):
            raise DataError(
                f"the column {column!r} is computed from {source!r}, which is masked only later",
                fix=f"put `mask` before the transform that computes it, or mask {column!r} as well",
            )


def _is_part(read: str, name: str, *, is_column: bool) -> bool:
    """Return whether a masked column or field has, or is in, the column or field that a computed column reads."""
    return f"{read}.".startswith(f"{name}.") or (not is_column and name.startswith(f"{read}."))


def _reject_moved(changes: Changes, names: Collection[str], hidden: Collection[str]) -> None:
    """Raise DataError for a masked value that some rows have in another place, because a ``when`` selected the others.

    ``names``: those of all rules; ``hidden``: columns and fields that they hide.
    """
    folded, columns = set(map(fold_name, hidden)), set(map(fold_name, changes.row_columns))
    for path in sorted(folded | set(map(fold_name, names))):
        for place in sorted(changes.list_places(path)):
            parts = fold_name(place).split(".")
            prefixes = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
            if not prefixes.isdisjoint(columns) and prefixes.isdisjoint(folded):
                raise DataError(
                    f"some rows have the values of {path!r} in {place!r}, because of an earlier `when`, and no mask hides them",
                    fix=f"mask {place!r} as well, or put `mask` before the transform with `when`",
                )


def _protect_keys(changes: Changes, found: Mapping[str, tuple[str, MaskRule]]) -> dict[str, MaskRule]:
    """Return rule's name → rule. DataError for a mask that would merge rows. ``found``: column → name and rule."""
    rules: dict[str, MaskRule] = {}
    for column, (name, rule) in found.items():
        if column in changes.key_columns and not rule.keeps_apart:
            if changes.table is not None or not rule.only_in:
                raise DataError(
                    f"{column!r} is part of the key, and this mask would merge rows",
                    fix="mask it with sha256, sha512, hmac_sha256 or token",
                )
            # The table is unknown. Without the key, the record becomes a dead letter.
            rules[name] = MaskRule(nullify=True)
        rules.setdefault(name, rule)
    return rules


def _add_secrets(
    changes: Changes, rules: dict[str, MaskRule], field_rules: dict[str, MaskRule]
) -> tuple[Changes, dict[str, Sequence[Column]]]:
    """Return the changes with secrets as columns, and these columns by the rule's name.

    Spark 4 rejects a subquery, which hides a secret from plans, in the functions of lists: those of tokens and of fields in lists.
    """
    from pyspark.sql import functions as F

    columns: dict[str, Column] = {}
    secrets: dict[str, Sequence[Column]] = {}
    tokens = {name: rule for name, rule in rules.items() if rule.token is not None}
    for number, (name, rule) in enumerate((tokens | field_rules).items()):
        made = make_secrets(rule, changes.frame.sparkSession)
        names = [f"{_SECRET}{number}_{part}" for part in range(len(made))]
        columns |= dict(zip(names, made, strict=True))
        secrets[name] = [F.col(column) for column in names]
    return (replace(changes, frame=changes.frame.withColumns(columns)) if columns else changes), secrets


def _reject_unmaskable(changes: Changes, masks: Mapping[str, ValueMask]) -> Changes:
    """Turn changes into dead letters whose value a mask does not take. The row before a change is not written."""
    scope = row_scope(changes, list_images(changes)[-1], ()) if list_images(changes) else {}
    tests = {
        f"the column `{column}` is not {mask.takes}, which its mask requires": mask.rejects(scope[column])
        for column, mask in masks.items()
        if mask.fits is not None and column in scope
    }
    return reject_rows(changes, tests)


def _find_statements(changes: Changes) -> list[tuple[str, ...]]:
    """Return the columns, or fields in them, that hold SQL: a masked value may be anywhere in it."""
    schema, found = changes.frame.schema, list[tuple[str, ...]]()
    for column in changes.event_columns:
        path = changes.origins.get(column) or ((column,) if changes.envelope else ())
        if path == ("source",):
            fields = getattr(schema[column].dataType, "names", ())
            found += [(column, name) for name in fields if name.lower() in STATEMENTS]
        elif len(path) == 2 and path[0] == "source" and path[1].lower() in STATEMENTS:
            found.append((column,))
    return found


def _list_row_texts(changes: Changes) -> list[str]:
    return list_row_texts(changes.origins, changes.frame.schema)


def _nullify(changes: Changes, texts: Iterable[tuple[str, ...]]) -> Changes:
    """Return the changes with null in columns, or in fields of them."""
    from pyspark.sql import functions as F

    frame = changes.frame
    for column, *fields in texts:
        data_type = frame.schema[column].dataType
        masked = F.col(quote_name(column))
        for name in fields:
            null = F.lit(None).cast(data_type[name].dataType)  # type: ignore[index]
            masked = masked.withField(quote_name(name), null)
        frame = frame.withColumn(column, masked if fields else F.lit(None).cast(data_type))
    return replace(changes, frame=frame)
