"""Page of a run as HTML, readable without a script. It contains no value of a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from headrace.sdk import RejectReason
from headrace.sdk.error_text import hide_values
from headrace.sdk.observer import RunEvent, Status
from headrace_serve.run_record import RunRecord, TableRecord
from headrace_serve.sparkline import draw_sparkline

_UNKNOWN = "–"
#: Parts of the latency, in their order.
_STAGES = ("transport", "read", "write")
#: Record of a table without a batch in this run.
_NO_RECORD = TableRecord()
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
<noscript><meta http-equiv="refresh" content="10"></noscript>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def render_page(pipeline: str, status: Status, delays: Sequence[str], record: RunRecord) -> str:
    """Return the page. ``delays``: why the tables are not ready."""
    parts = [
        _render_head(pipeline, status, delays),
        _render_failures(status, record),
        _render_tables(status, record),
        _render_dead_letters(record),
        _render_batches(record),
        _render_maintenance(record),
    ]
    return _PAGE.format(title=_text(f"{pipeline} – headrace"), body="\n".join(filter(None, parts)))


def _render_head(pipeline: str, status: Status, delays: Sequence[str]) -> str:
    state, style = ("runs", "good") if status.active else ("has ended", "bad")
    if status.active and delays:
        state, style = f"is not ready: {len(delays)} reason{'s' * (len(delays) != 1)}", "warn"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    lines = [f"<h1>{_text(pipeline)} <span class={style}>{_text(state)}</span></h1>"]
    step = f", {status.step}" if status.step else ""
    lines.append(f"<p>{_text(hide_values(status.message) + step)} <small>{now}</small></p>")
    if delays:
        lines.append(_list_items(hide_values(delay) for delay in delays))
    return "\n".join(lines)


def _render_failures(status: Status, record: RunRecord) -> str:
    """Return the errors of now, then the last ones that are over."""
    now = [("the run", "", status.error)] if status.error else []
    now += [(f"{t.table} → {t.sink}", t.failing_since or "", t.error) for t in status.tables if t.error]
    rows = [(_text(what), _text(since), _error(error), _text("now")) for what, since, error in now]
    known = {error for *_, error in now}
    for event in reversed(record.troubles):
        if event.error not in known:
            what = event.table or (f"batch {event.batch}" if event.batch is not None else "the run")
            rows.append((_text(what), _time(event), _error(event.error), _text(event.kind)))
    return _table("Errors", ("what", "since", "why, and the fix", "state"), rows)


def _render_tables(status: Status, record: RunRecord) -> str:
    rows = []
    for table in sorted(status.tables, key=lambda table: (table.error is None, table.table, table.sink)):
        counts = record.tables.get((table.table, table.sink), _NO_RECORD)
        state = '<span class="bad">set aside</span>' if table.error else '<span class="good">written</span>'
        applied = counts.rows.get("applied")
        numbers = (applied, table.lag, table.backlog if table.error else 0)
        rows.append(
            (
                _text(table.table),
                _text(table.sink),
                state,
                _number(_seconds(table.lag_seconds)),
                _number(_seconds(_to_seconds(table.latency_ms)), counts.latencies, "latency of the last batches"),
                *(_number(_seconds(_to_seconds(table.stages_ms.get(stage)))) for stage in _STAGES),
                _number(f"{table.rows_per_second:,.1f}", counts.rates, "records per second of the last batches"),
                *(_number(_UNKNOWN if value is None else f"{value:,}") for value in numbers),
            )
        )
    heads = (
        "table",
        "sink",
        "state",
        "behind",
        "latency",
        *_STAGES,
        "rows/s",
        "applied",
        "waiting records",
        "waiting batches",
    )
    return _table("Tables", heads, rows) or "<h2>Tables</h2><p>No table has received a record in this run.</p>"


def _render_dead_letters(record: RunRecord) -> str:
    meanings = {str(reason): reason.meaning for reason in RejectReason}
    rows = [
        (_text(table), _text(reason), _number(f"{count:,}"), _text(meanings.get(reason, "")))
        for (table, reason), count in sorted(record.dead_letters.items())
    ]
    return _table("Dead letters", ("table", "reason", "records", "meaning"), rows)


def _render_batches(record: RunRecord) -> str:
    rows = []
    for event in reversed(record.batches):
        tables = event.progress.tables if event.progress else ()
        applied = sum(table.applied or 0 for table in tables if table.error is None)
        seconds = _seconds(event.progress.seconds) if event.progress else _UNKNOWN
        result = "failed" if event.error else "committed"
        steps = event.progress.steps if event.progress else {}
        parts = ", ".join(f"{step} {_seconds(spent)}" for step, spent in steps.items())
        numbers = (str(event.batch), seconds, f"{applied:,}", str(len(tables)))
        rows.append((_time(event), *map(_number, numbers), _number(parts or _UNKNOWN), _text(result)))
    return _table("Last batches", ("time", "batch", "took", "applied", "tables", "steps", "result"), rows)


def _render_maintenance(record: RunRecord) -> str:
    rows = []
    for event in reversed(record.maintained):
        if done := event.maintained:
            result = _error(done.error) if done.error else _text(done.outcome or done.what)
            cells = (_text(f"{done.table} → {done.sink}"), _text(done.step), _number(_seconds(done.seconds)), result)
            rows.append((_time(event), *cells))
    return _table("Maintenance", ("time", "table", "step", "took", "result"), rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a titled table of cells that are HTML; nothing without rows."""
    if not rows:
        return ""
    head = "".join(f"<th scope=col>{_text(name)}</th>" for name in heads)
    body = "\n".join(
        "<tr>" + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in row) for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    # Keys scroll a table that is wider than the screen.
    return f'<section><h2>{_text(title)}</h2><div tabindex=0 role="region" aria-label="{_text(title)}">{table}</div></section>'


def _list_items(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>"


def _number(text: str, last: Collection[float] = (), label: str = "") -> str:
    """Return a cell with a number, and with a chart of its ``last`` values."""
    return f"<td class=n>{_text(text)}{draw_sparkline(list(last), _text(label))}</td>"


def _error(text: str | None) -> str:
    return f"<pre>{_text(hide_values(text or ''))}</pre>"


def _time(event: RunEvent) -> str:
    return _text(datetime.fromtimestamp(event.time, UTC).strftime("%m-%d %H:%M:%S"))


def _to_seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _seconds(value: float | None) -> str:
    """Return a duration for readers."""
    if value is None:
        return _UNKNOWN
    value = max(value, 0.0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if value >= 2 * size:
            return f"{value / size:,.1f} {unit}"
    return f"{value:.1f} s"


def _text(text: str) -> str:
    return escape(text)
