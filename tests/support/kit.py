"""Kit tests for sinks with several types of tables or files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from headrace.testing._internal.histories import HistoryConformance
from headrace.testing._internal.values import ValueConformance
from headrace.testing.plugins import PluginConformance
from headrace.testing.sinks import SinkConformance

_K = TypeVar("_K", bound=type[SinkConformance])
#: Tests of batches that read the files of a table.
_ROW_COUNT_TESTS = {
    "test_append_keeps_every_row",
    "test_empty_batch_changes_nothing",
    "test_reappending_a_batch_changes_nothing",
}
#: Tests that `make test` runs for Iceberg, and not for the other table formats, whose histories it runs.
ICEBERG_CASES = (
    "test_failed_write_changes_nothing",
    "test_reappending_a_batch_changes_nothing",
    "test_rewriting_a_batch_changes_nothing",
    "test_truncated_table_rejects_older_rows",
    "test_unavailable_value_keeps_the_stored_value",
    "test_wider_type_is_stored_or_rejected",
)
#: Tests that `make test` runs for one sink.
ONE_SINK_CASES = (
    # Rare cases.
    "test_append_survives_a_fault_at_any_step",
    "test_appended_batch_of_an_older_checkpoint_is_completed_or_rejected",
    "test_batch_of_an_older_checkpoint_is_applied",
    "test_composite_key_identifies_rows",
    "test_composite_key_of_many_types_identifies_rows",
    "test_current_version_has_the_current_rows",
    "test_late_value_fills_an_earlier_unavailable_value",
    "test_listed_versions_are_read",
    "test_missing_column_of_a_batch_is_null",
    "test_new_column_with_an_unavailable_value_is_added",
    "test_new_struct_field_is_added",
    "test_older_versions_are_readable",
    "test_single_column_key_of_each_type_identifies_rows",
    "test_two_pipelines_write_a_table_concurrently",
    "test_two_tables_are_written_concurrently",
    # Single steps of test_history_in_any_order_yields_the_same_table.
    "test_change_older_than_a_delete_is_ignored",
    "test_delete_before_its_insert_removes_the_row",
    "test_delete_before_the_first_row_creates_no_row",
    "test_delete_removes_the_row",
    "test_insert_after_a_delete_restores_the_row",
    "test_late_delete_is_ignored",
    "test_late_row_is_ignored",
    "test_repeated_row_changes_nothing",
    "test_upsert_keeps_one_row_per_key",
    # Ways in which the engine calls every sink.
    "test_batches_of_two_pipelines_are_independent",
    "test_empty_batch_changes_nothing",
    "test_input_is_read_once",
    "test_large_batch_is_not_collected_in_the_driver",
    "test_pickled_sink_finds_the_table",
    "test_rows_that_the_source_no_longer_has_are_removed",
    "test_write_uses_the_session_of_the_rows",
)


def skip_type_independent_tests(kit: _K) -> _K:
    """Remove the tests of every plugin and of histories, which run on the first type of table of the sink.

    The engine calls every type of table the same way, and the kit tests each call on this type too. Random histories run on
    all types in tests/core/upsert/test_histories.py.
    """
    return _leave_out(kit, _list_tests(PluginConformance, HistoryConformance))


def skip_format_independent_tests(kit: _K) -> _K:
    """Keep only the tests of values, columns and row counts.

    A sink treats the files of all formats the same way, so its first format covers the other tests.
    """
    return _leave_out(kit, set(_list_tests(kit)) - {*_list_tests(ValueConformance), *_ROW_COUNT_TESTS})


def _list_tests(*kits: type) -> list[str]:
    return [name for kit in kits for name in dir(kit) if name.startswith("test_")]


def _leave_out(kit: _K, tests: Iterable[str]) -> _K:
    for name in tests:
        setattr(kit, name, None)
    return kit
