"""Lines of ``headrace run`` about an error that the run retries, without Spark."""

from __future__ import annotations

from headrace.cli.commands.run import _describe_trouble, _kind_of
from headrace.errors import ConfigError, RetriableError
from headrace.progress.status import describe_run


def test_end_of_an_error_names_source_or_sink() -> None:
    healthy = describe_run([], {}, None, None)
    away = describe_run([], {}, None, RetriableError("no broker responds", where="source kafka"))
    rejected = describe_run([], {}, None, None, sink_error=ConfigError("permission denied", where="table shop.orders"))
    assert _describe_trouble(away, None) == "source kafka: no broker responds\n  retrying until it answers"
    assert _describe_trouble(healthy, _kind_of(away)) == "the source answers again"
    assert _describe_trouble(rejected, None) == "table shop.orders: permission denied\n  retrying"
    assert _describe_trouble(healthy, _kind_of(rejected)) == "the sink succeeds again"
