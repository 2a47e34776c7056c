"""Small charts of the last values, as SVG without a script."""

from __future__ import annotations

from collections.abc import Sequence

_WIDTH, _HEIGHT = 60, 16


def draw_sparkline(values: Sequence[float], label: str) -> str:
    """Return a line from the oldest to the newest value, above 0; nothing for fewer than two values.

    ``label``: what the values are, as HTML, for readers of the page who do not see the line.
    """
    if len(values) < 2:
        return ""
    highest = max(*values, 0.0) or 1.0
    step = _WIDTH / (len(values) - 1)
    points = " ".join(
        f"{round(number * step)},{round(_HEIGHT - 1 - max(value, 0.0) / highest * (_HEIGHT - 2))}"
        for number, value in enumerate(values)
    )
    size = f'width="{_WIDTH}" height="{_HEIGHT}"'
    return f'<svg {size} role="img" aria-label="{label}"><polyline points="{points}"/></svg>'
