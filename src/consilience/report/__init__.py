"""One page that shows what happened and whom to trust: a self-contained HTML file."""

from __future__ import annotations

from consilience.callable_package import make_callable
from consilience.report.page import render, report, save_with_report

__all__ = ["render", "report", "save_with_report"]

make_callable(__name__, report)
