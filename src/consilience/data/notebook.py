"""What a notebook shows of an object: a line, and a few rows as a table, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from consilience.data.names import marked

__all__ = ["lines", "table"]


def lines(heading: Any, *sentences: Any, kind: str = "p") -> Markup:
    """Give a heading in bold and sentences below it, as paragraphs or as a list (``kind`` "li")."""
    made = Markup("<p><b>{}</b></p>").format(heading)
    parts = Markup("").join(Markup(f"<{kind}>{{}}</{kind}>").format(sentence) for sentence in sentences)
    return made + (Markup("<ul>{}</ul>").format(parts) if kind == "li" and sentences else parts)


def table(caption: str, columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
    """Give rows as a table; numbers have three digits and stand at the right."""
    head = Markup("").join(Markup("<th>{}</th>").format(marked(name)) for name in columns)
    body = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(_cell(value) for value in row)) for row in rows)
    return Markup("<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        caption, head, body
    )


def _cell(value: Any) -> Markup:
    if value is None or value != value:
        return Markup("<td></td>")
    if isinstance(value, float):
        return Markup('<td align="right">{}</td>').format(f"{value:.3f}")
    if isinstance(value, int):
        return Markup('<td align="right">{}</td>').format(value)
    return Markup('<td align="left">{}</td>').format(marked(value) if str(value) else "")
