"""Decision about failed tables: the run stops, or they are set aside and the other tables continue."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.errors import HeadraceError, RetriableError, RuleError


def find_fatal_error(
    errors: Mapping[str, HeadraceError], set_aside: Collection[str], *, has_healthy_tables: bool
) -> HeadraceError | None:
    """Return the error that ends the run; None to set the failed tables aside.

    ``errors``: table → why it failed in this batch; ``set_aside``: tables that failed before; ``has_healthy_tables``: whether any
    other table is written.
    """
    rule_error = next((error for error in errors.values() if isinstance(error, RuleError)), None)
    if rule_error is not None or not errors:
        return rule_error
    first = next(iter(errors.values()))
    if errors.keys() & set(set_aside):  # The batch could not be added to its backlog.
        return first
    if not has_healthy_tables and not all(isinstance(error, RetriableError) for error in errors.values()):
        return first
    return None
