"""A comparison as text for papers and pages: LaTeX and Markdown tables, names escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["HEADINGS", "cells", "to_latex", "to_markdown"]

#: Headings of what is right, without the cost.
HEADINGS = ("method", "error %", "sd", "95%", "log-loss", "Brier", "ECE", "confidence")

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a row of a comparison as text, under :data:`HEADINGS`; "-" where nothing was measured."""
    low, high = row["low"], row["high"]
    return (
        row["method"],
        _figure(row["error"], 2),
        _figure(row["error_sd"], 2),
        "-" if low is None else f"{low:4.1f} to {high:4.1f}",
        *(_figure(row[name], 3) for name in ("log_loss", "brier", "ece", "confidence")),
    )


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:{digits + 3}.{digits}f}"


def to_markdown(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a table in Markdown, with the methods in the order of the rows."""
    headings, body = _table(rows, _in_markdown)
    rule = [":--", *["--:"] * (len(headings) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (headings, rule, *body))


def to_latex(rows: Iterable[Mapping[str, Any]], caption: str | None = None, label: str | None = None) -> str:
    """Return a table in LaTeX; with a caption or a label it floats.  It needs the package booktabs."""
    headings, body = _table(rows, _in_latex)
    head, *lines = (" & ".join(line) + r" \\" for line in (headings, *body))
    columns = "l" + "r" * (len(headings) - 1)
    table = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule"]
    table.append(r"\end{tabular}")
    if caption is not None or label is not None:
        named = [rf"\caption{{{caption}}}"] if caption is not None else []
        named += [rf"\label{{{label}}}"] if label is not None else []
        table = [r"\begin{table}", r"\centering", *named, *table, r"\end{table}"]
    return "\n".join(table) + "\n"


def _table(
    rows: Iterable[Mapping[str, Any]], escaped: Callable[[str], str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headings and rows; a method without a result has its status in place of the error."""
    body = []
    for row in rows:
        name, error, *others = (escaped(" ".join(cell.split())) for cell in (*cells(row), _figure(row["seconds"], 3)))
        body.append((name, escaped(row["status"]) if row["error"] is None else error, *others))
    return tuple(escaped(heading) for heading in (*HEADINGS, "seconds")), body


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", text)
