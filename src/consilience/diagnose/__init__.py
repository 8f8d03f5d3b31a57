"""What the data can tell: identifiability, agreement, and what to collect next."""

from __future__ import annotations

from consilience.callable_package import make_callable
from consilience.diagnose.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]

make_callable(__name__, "consilience.planning")  # for all kinds of answers, a layer above
