"""Names and numbers as pages and notebooks show them: short, on one line, escaped, without control characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

__all__ = ["count", "counted", "cut", "lines", "marked", "percent", "shown", "table"]

#: Characters that change the direction of text, or are invisible.
_TURNING = frozenset("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
_REPLACED = "\ufffd"
#: Longest name shown, and longest in its tooltip.
MOST, _MOST_WHOLE = 48, 200


def _clean(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if c.isspace() else _REPLACED if c in _TURNING or unicodedata.category(c) in ("Cc", "Cs", "Cn") else c
        for c in text
    )


def cut(text: str, most: int) -> str:
    """Replace the middle of long text by "…": ids mostly differ at their ends."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def shown(name: Any, most: int = MOST) -> str:
    """Return a name as plain text of at most ``most`` characters; a blank name is shown as (empty)."""
    # cut first: very long text need not be cleaned as a whole
    text = cut(str(name), 4 * _MOST_WHOLE)
    return cut(_clean(text).strip() or "(empty)", most)


def marked(name: Any, most: int = MOST) -> Markup:
    """Return a name as escaped markup, isolated from the direction of the text around it."""
    short, whole = shown(name, most), shown(name, _MOST_WHOLE)
    if short == whole:
        return Markup("<bdi>{}</bdi>").format(short)
    return Markup('<bdi title="{}">{}</bdi>').format(whole, short)


def count(n: Any) -> str:
    """Return a whole number with thousands separators: ``12,345``."""
    return f"{int(n):,}"


def counted(n: int, what: str, plural: str = "s") -> str:
    """Return a number with its noun: ``1 item``, ``2,000 items``."""
    return f"{n:,} {what}{plural * (n != 1)}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as a percentage; only 0 and 1 themselves are shown as 0% and 100%."""
    if share is None or share != share:
        return "–"
    least = 10.0**-digits
    value = 100.0 * share
    if 0.0 < value < least / 2:
        return f"<{least:.{digits}f}%"
    if 100.0 - least / 2 < value < 100.0:
        return f">{100.0 - least:.{digits}f}%"
    return f"{value:.{digits}f}%"


def lines(heading: Any, *sentences: Any, kind: str = "p") -> Markup:
    """Return a heading in bold and sentences below it, as paragraphs or as a list (``kind`` "li")."""
    made = Markup("<p><b>{}</b></p>").format(heading)
    parts = Markup("").join(Markup(f"<{kind}>{{}}</{kind}>").format(sentence) for sentence in sentences)
    return made + (Markup("<ul>{}</ul>").format(parts) if kind == "li" and sentences else parts)


def table(caption: str, columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
    """Return rows as a table; numbers are aligned right, with three digits."""
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
