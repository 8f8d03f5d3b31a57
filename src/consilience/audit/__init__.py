"""Audit of a panel of judges: who errs, who errs together, what moves their verdicts, and whom to keep."""

from __future__ import annotations

from consilience.audit.audit import audit
from consilience.audit.result import Audit
from consilience.callable_package import make_callable

__all__ = ["Audit", "audit"]

make_callable(__name__, "consilience.audit.audit")
