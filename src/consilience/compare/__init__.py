"""Comparison of methods where the truth is known: error, calibration, time and memory."""

from __future__ import annotations

from consilience.callable_package import make_callable
from consilience.compare.compare import compare
from consilience.compare.comparison import Comparison

__all__ = ["Comparison", "compare"]

make_callable(__name__, "consilience.compare.compare")
