"""The report of a run: one self-contained HTML page."""

from __future__ import annotations

from consilience.callable_package import make_callable
from consilience.report.page import quick_diagnosis, render, report

__all__ = ["quick_diagnosis", "render", "report"]

make_callable(__name__, "consilience.report.page")
