"""Labels you can trust from annotators you cannot.

>>> import consilience as cs
>>> consensus = cs.aggregate(cs.datasets.load("dawid_skene").annotations)
>>> consensus.labels  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public name: its module, imported when the name is first used, so that ``consilience --help`` needs none.
_HOME = {
    "METHODS": "consilience.aggregation.registry",
    "Annotations": "consilience.annotations",
    "Consensus": "consilience.consensus",
    "DawidSkene": "consilience.dawid_skene",
    "DawidSkeneEM": "consilience.aggregation.estimators",
    "DesignatedSymNMF": "consilience.aggregation.estimators",
    "Diagnosis": "consilience.diagnose",
    "MajorityVote": "consilience.aggregation.estimators",
    "OneCoin": "consilience.aggregation.estimators",
    "PlainSymNMF": "consilience.aggregation.estimators",
    "RobustSymNMF": "consilience.aggregation.estimators",
    "SymNMF": "consilience.factor.estimators",
    "aggregate": "consilience.aggregation.aggregate",
    "diagnose": "consilience.diagnose",
    "load": "consilience.io",
    "read": "consilience.io",
    "read_truth": "consilience.io",
    "simulate": "consilience.datasets",
}
_MODULES = ("datasets", "exceptions", "factor", "moments")

__all__ = [
    "METHODS",
    "Annotations",
    "Consensus",
    "DawidSkene",
    "DawidSkeneEM",
    "DesignatedSymNMF",
    "Diagnosis",
    "MajorityVote",
    "OneCoin",
    "PlainSymNMF",
    "RobustSymNMF",
    "SymNMF",
    "__version__",
    "aggregate",
    "datasets",
    "diagnose",
    "exceptions",
    "factor",
    "load",
    "moments",
    "read",
    "read_truth",
    "simulate",
]

if TYPE_CHECKING:
    from consilience import datasets, exceptions, factor, moments
    from consilience.aggregation.aggregate import aggregate
    from consilience.aggregation.estimators import (
        DawidSkeneEM,
        DesignatedSymNMF,
        MajorityVote,
        OneCoin,
        PlainSymNMF,
        RobustSymNMF,
    )
    from consilience.aggregation.registry import METHODS
    from consilience.annotations import Annotations
    from consilience.consensus import Consensus
    from consilience.datasets import simulate
    from consilience.dawid_skene import DawidSkene
    from consilience.diagnose import Diagnosis, diagnose
    from consilience.factor.estimators import SymNMF
    from consilience.io import load, read, read_truth


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = import_module(f"consilience.{name}")
    else:
        raise AttributeError(f"module 'consilience' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
