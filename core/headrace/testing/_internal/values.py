"""Tests of values, schema changes and older versions of a table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from headrace.errors import ConfigError, DataError, HeadraceError
from headrace.spark.columns import quote_name
from headrace.testing._internal.claims import claims
from headrace.testing.tables import VALUES, Target, plain, put

_PEOPLE = "id int, name string"


class ValueConformance:
    """Tests of values, schema changes and time travel."""

    def test_values_are_stored_unchanged(self, target: Target) -> None:
        schema = ", ".join(f"{name} {sql_type}" for name, (sql_type, *_) in VALUES.items())
        names, rows = list(VALUES), [[value[n] for value in VALUES.values()] for n in (1, 2, 3)]
        target.write(schema, *[put(number, *row) for number, row in enumerate(rows[:2])])
        # The second batch has another row, and in mode upsert also an update of the second row with the values of the first.
        target.write(schema, put(5, *rows[2]), *([put(6, rows[1][0], *rows[0][1:])] if target.mode == "upsert" else []))
        if target.mode == "upsert":
            rows[1] = [rows[1][0], *rows[0][1:]]
        expected = [dict(zip(names, map(plain, row), strict=True)) for row in rows]
        for row, stored in zip(expected, target.rows(), strict=True):
            assert stored == row

    def test_unusual_column_names_are_stored_or_rejected(self, target: Target) -> None:
        names = ["a b", "sélect", 'x"y', "a.b", "`", "from"]
        schema = f"id int, {', '.join(f'{quote_name(name)} string' for name in names)}"

        def write(batch: int) -> HeadraceError | None:
            values = [f"{name} {batch}" for name in names]
            return target.refusal(lambda: target.write(schema, put(batch, 1, *values), put(batch, 2, *names)))

        refusals = [write(1), write(2)]
        for refusal in refusals:
            if refusal is not None:
                assert isinstance(refusal, DataError)
                assert any(repr(name) in str(refusal) for name in names)
        if refusals == [None, None]:
            assert {"id": 1, **{name: f"{name} 2" for name in names}} in target.rows()

    @claims("schema_evolution")
    def test_new_column_is_added(self, target: Target) -> None:
        target.write(_PEOPLE, put(1, 1, "a"), put(2, 2, "b"))
        target.write(f"{_PEOPLE}, born date", put(3, 3, "c", date(1886, 9, 16)))
        assert target.rows() == [
            {"id": 1, "name": "a", "born": None},
            {"id": 2, "name": "b", "born": None},
            {"id": 3, "name": "c", "born": date(1886, 9, 16)},
        ]

    @claims("schema_evolution")
    def test_missing_column_of_a_batch_is_null(self, target: Target) -> None:
        target.write("id int, name string, born int", put(1, 1, "a", 1886), put(2, 2, "b", 1887))
        target.write("born int, id int", put(3, 1888, 3))
        assert target.rows() == [
            {"id": 1, "name": "a", "born": 1886},
            {"id": 2, "name": "b", "born": 1887},
            {"id": 3, "name": None, "born": 1888},
        ]

    @claims("schema_evolution")
    def test_new_struct_field_is_added(self, target: Target) -> None:
        old, new = "a int", "a int, b string"
        target.write(f"id int, s struct<{old}>, l array<struct<{old}>>", put(1, 1, (1,), [(1,)]))
        target.write(f"id int, s struct<{new}>, l array<struct<{new}>>", put(2, 2, (2, "b"), [(2, "b"), None]))
        target.write(f"id int, s struct<{old}>, l array<struct<{old}>>", put(3, 3, None, [(3,)]))
        assert target.rows() == [
            {"id": 1, "s": {"a": 1, "b": None}, "l": [{"a": 1, "b": None}]},
            {"id": 2, "s": {"a": 2, "b": "b"}, "l": [{"a": 2, "b": "b"}, None]},
            {"id": 3, "s": None, "l": [{"a": 3, "b": None}]},
        ]

    @claims("schema_evolution")
    def test_wider_type_is_stored_or_rejected(self, target: Target) -> None:
        narrow, wide = "id int, size int, price decimal(5,2)", "id int, size bigint, price decimal(12,2)"
        target.write(narrow, put(1, 1, 10, Decimal("1.50")))
        refusal = target.refusal(lambda: target.write(wide, put(2, 2, 2**40, Decimal("1234567.25"))))
        target.write(narrow, put(3, 3, 30, Decimal("3.50")))
        rows = [
            {"id": 1, "size": 10, "price": Decimal("1.50")},
            {"id": 2, "size": 2**40, "price": Decimal("1234567.25")},
            {"id": 3, "size": 30, "price": Decimal("3.50")},
        ]
        if refusal is not None:
            assert isinstance(refusal, DataError)
            assert any(repr(name) in str(refusal) for name in ("size", "price"))
            del rows[1]
        assert target.rows() == rows

    @claims("schema_evolution")
    def test_incompatible_type_is_stored_as_string_or_rejected(self, target: Target) -> None:
        target.write("id int, size int", put(1, 1, 10))
        refusal = target.refusal(lambda: target.write("id int, size string", put(2, 2, "large")))
        if refusal is None:
            assert target.rows() == [{"id": 1, "size": "10"}, {"id": 2, "size": "large"}]
        else:
            assert isinstance(refusal, DataError)
            assert "'size'" in str(refusal)
            assert target.rows() == [{"id": 1, "size": 10}]

    # Versions

    @claims("time_travel")
    def test_current_version_has_the_current_rows(self, target: Target) -> None:
        """A version that a sink finds lasts: readers use it until another one is found."""
        find = target.sink.find_version
        assert find(target.session, target.table) is None
        target.write(_PEOPLE, put(1, 1, "a"))
        first = find(target.session, target.table)
        target.write(_PEOPLE, put(2, 2, "b"))
        second = find(target.session, target.table)
        if first is None:
            assert second is None
        else:
            assert second not in (None, first)
            assert target.rows(first) == [{"id": 1, "name": "a"}]
            assert target.rows(second) == target.rows()

    @claims("time_travel")
    def test_listed_versions_are_read(self, target: Target) -> None:
        """Each version that a sink lists has the rows of one commit; the newest is the current one."""
        assert not target.sink.list_versions(target.session, target.table)
        target.write(_PEOPLE, put(1, 1, "a"))
        target.write(_PEOPLE, put(2, 2, "b"))
        listed = target.sink.list_versions(target.session, target.table)
        if listed:
            known = [target.rows(), [{"id": 1, "name": "a"}]]
            assert [target.rows(version.version) for version in reversed(listed)] == known[: len(listed)]
            assert [version.written_ms for version in listed] == sorted(version.written_ms for version in listed)
            assert not any(version.is_first for version in listed[1:])

    @claims("time_travel")
    def test_older_versions_are_readable(self, target: Target) -> None:
        first = target.write(_PEOPLE, put(1, 1, "a"))
        time = datetime.now(UTC)
        second = target.write(_PEOPLE, put(2, 2, "b"))
        zone = ZoneInfo(target.session.conf.get("spark.sql.session.timeZone") or "UTC")
        assert first.version is not None
        assert target.rows(first.version) == [{"id": 1, "name": "a"}]
        assert target.rows(f"{time.astimezone(zone):%Y-%m-%d %H:%M:%S.%f}") == [{"id": 1, "name": "a"}]
        assert target.rows(second.version) == target.rows()
        assert isinstance(target.refusal(lambda: target.rows("1970-01-02 00:00:00")), ConfigError)
        assert isinstance(target.refusal(lambda: target.rows("no version")), ConfigError)
