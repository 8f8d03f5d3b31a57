"""Data sets: simulated crowds, public sets of known source and licence, and the table of 1979.

>>> annotations, truth = load("dawid_skene")
>>> annotations
<Annotations: 315 labels, 45 items, 5 annotators, 4 classes>
"""

from __future__ import annotations

from consilience.datasets.catalogue import CATALOGUE, DatasetInfo
from consilience.datasets.comparisons import ComparisonSimulation, simulate_comparisons
from consilience.datasets.loading import Crowd, info, load, names, path, unknown
from consilience.datasets.multi import MultiSimulation, simulate_multi
from consilience.datasets.numeric import NumericSimulation, simulate_numeric
from consilience.datasets.scales import simulate_scale
from consilience.datasets.sequences import SequenceSimulation, simulate_sequences
from consilience.datasets.simulation import Simulation, simulate

__all__ = [
    "CATALOGUE",
    "ComparisonSimulation",
    "Crowd",
    "DatasetInfo",
    "MultiSimulation",
    "NumericSimulation",
    "SequenceSimulation",
    "Simulation",
    "info",
    "load",
    "names",
    "path",
    "simulate",
    "simulate_comparisons",
    "simulate_multi",
    "simulate_numeric",
    "simulate_scale",
    "simulate_sequences",
    "unknown",
]
