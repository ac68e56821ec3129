"""Results as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import Iterable, Mapping, Optional, Sequence

MOST_ROWS = 40


def significant(value: float) -> str:
    """With four digits: "12,345", "3.142"."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:,.4g}"


def duration(seconds: Optional[float]) -> Optional[str]:
    """ "10.22 s", "3.142 ms" """
    if seconds is None:
        return None
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{significant(seconds / size)} {unit}"
    return f"{significant(seconds / 1e-6)} µs"


def cell(value: object) -> str:
    """A value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return significant(value)
    return escape(str(value))


def row(tag: str, values: Iterable[object], numbers: str = "right") -> str:
    cells = []
    for value in values:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        align = numbers if number else "left"
        cells.append(f'<{tag} style="text-align:{align}">{cell(value)}</{tag}>')
    return f"<tr>{''.join(cells)}</tr>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of at most MOST_ROWS rows; the last line says how many more there are."""
    rows = list(rows)
    lines = [row("td", values) for values in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(row("td", [f"and {len(rows) - MOST_ROWS} more"]))
    return f"<table><thead>{row('th', columns)}</thead><tbody>{''.join(lines)}</tbody></table>"


def page(title: str, figures: Mapping[str, object], *parts: Optional[str]) -> str:
    """A title, a list of figures (those that are None left out), and what stands below."""
    shown = [row("td", (name, value), numbers="left") for name, value in figures.items() if value is not None]
    body = f"<table><tbody>{''.join(shown)}</tbody></table>" if shown else ""
    return f"<div><p><b>{escape(title)}</b></p>{body}{''.join(part for part in parts if part)}</div>"
