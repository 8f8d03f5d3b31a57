"""Names from data, as a page can show them: short, on one line, and without characters that turn text around."""

from __future__ import annotations

import unicodedata
from typing import Any

from markupsafe import Markup

__all__ = ["count", "marked", "percent", "shown"]

#: Characters that change the direction of what follows them, or are not seen at all.
_TURNING = frozenset("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
_REPLACED = "\ufffd"
#: A name is shown with so many characters, and with so many where the pointer rests on it.
MOST, _MOST_WHOLE = 48, 200


def _clean(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if c.isspace() else _REPLACED if c in _TURNING or unicodedata.category(c) in ("Cc", "Cs", "Cn") else c
        for c in text
    )


def _cut(text: str, most: int) -> str:
    """Leave the middle out of long text: ids mostly differ at their ends."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def shown(name: Any, most: int = MOST) -> str:
    """Give a name as plain text, of at most so many characters; what has no ink is called empty."""
    # what is far beyond the cut need not be cleaned
    text = _cut(str(name), 4 * _MOST_WHOLE)
    return _cut(_clean(text).strip() or "(empty)", most)


def marked(name: Any, most: int = MOST) -> Markup:
    """Give a name as escaped markup, apart from the direction of the text around it."""
    short, whole = shown(name, most), shown(name, _MOST_WHOLE)
    if short == whole:
        return Markup("<bdi>{}</bdi>").format(short)
    return Markup('<bdi title="{}">{}</bdi>').format(whole, short)


def count(n: Any) -> str:
    """Give a whole number with its thousands apart: ``12,345``."""
    return f"{int(n):,}"


def percent(share: float | None, digits: int = 1) -> str:
    """Give a share as a percentage; what is not quite nothing, or not quite all, is not rounded to it."""
    if share is None or share != share:
        return "–"
    least = 10.0**-digits
    value = 100.0 * share
    if 0.0 < value < least / 2:
        return f"<\u202f{least:.{digits}f}\u00a0%"
    if 100.0 - least / 2 < value < 100.0:
        return f">\u202f{100.0 - least:.{digits}f}\u00a0%"
    return f"{value:.{digits}f}\u00a0%"
