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
    "AND": "consilience.factor.nmf_estimators",
    "EBCC": "consilience.aggregation.estimators",
    "GLAD": "consilience.aggregation.estimators",
    "IBCC": "consilience.aggregation.estimators",
    "KOS": "consilience.aggregation.estimators",
    "METHODS": "consilience.aggregation.registry",
    "SPA": "consilience.factor.nmf_estimators",
    "Agreement": "consilience.diagnose.agreement",
    "Annotations": "consilience.annotations",
    "Auto": "consilience.aggregation.estimators",
    "ClassOneCoin": "consilience.aggregation.estimators",
    "Comparison": "consilience.aggregation.comparison",
    "CompletedVote": "consilience.aggregation.estimators",
    "Consensus": "consilience.consensus",
    "CoupledNMF": "consilience.aggregation.estimators",
    "DawidSkene": "consilience.dawid_skene",
    "DawidSkeneEM": "consilience.aggregation.estimators",
    "DesignatedSymNMF": "consilience.aggregation.estimators",
    "Diagnosis": "consilience.diagnose",
    "EigenRatio": "consilience.aggregation.estimators",
    "GhoshSVD": "consilience.aggregation.estimators",
    "HardItemsDawidSkene": "consilience.aggregation.estimators",
    "HiddenMarkov": "consilience.hidden_markov",
    "HierarchicalDawidSkene": "consilience.aggregation.estimators",
    "JointPMF": "consilience.pmf.joint_pmf",
    "JointPMFClassifier": "consilience.pmf.classifier",
    "JointPMFRecommender": "consilience.pmf.recommender",
    "MajorityVote": "consilience.aggregation.estimators",
    "MinimaxEntropy": "consilience.aggregation.estimators",
    "MultiSPA": "consilience.aggregation.estimators",
    "NetworkConsensus": "consilience.structured.network_consensus",
    "OneCoin": "consilience.aggregation.estimators",
    "PlainSymNMF": "consilience.aggregation.estimators",
    "Plan": "consilience.diagnose.plan",
    "RobustSymNMF": "consilience.aggregation.estimators",
    "Scanned": "consilience.engine.scanned",
    "SequenceAnnotations": "consilience.sequences",
    "SequenceConsensus": "consilience.structured.sequence_consensus",
    "SequenceRun": "consilience.sequence_run",
    "SketchedSubspaceClustering": "consilience.subspace.clustering",
    "SpectralDawidSkene": "consilience.aggregation.estimators",
    "SpectralMetaLearner": "consilience.aggregation.estimators",
    "Stream": "consilience.aggregation.online",
    "SymNMF": "consilience.factor.estimators",
    "TensorADMM": "consilience.aggregation.estimators",
    "TensorAugmentation": "consilience.aggregation.estimators",
    "TriangularEstimation": "consilience.aggregation.estimators",
    "aggregate": "consilience.structured.aggregate",
    "agreement": "consilience.diagnose.agreement",
    "compare": "consilience.aggregation.compare",
    "diagnose": "consilience.diagnose",
    "load": "consilience.io",
    "nearest_neighbours": "consilience.structured.graph",
    "plan": "consilience.diagnose.plan",
    "read": "consilience.io",
    "read_edges": "consilience.io.edges",
    "read_sequence_truth": "consilience.io.sequences",
    "read_sequences": "consilience.io.sequences",
    "read_truth": "consilience.io",
    "recognise": "consilience.io",
    "report": "consilience.report",
    "scan": "consilience.engine.scan",
    "simulate": "consilience.datasets",
    "write": "consilience.io.writing",
}
_MODULES = ("datasets", "exceptions", "factor", "metrics", "moments", "plot", "spans")

__all__ = [
    "AND",
    "EBCC",
    "GLAD",
    "IBCC",
    "KOS",
    "METHODS",
    "SPA",
    "Agreement",
    "Annotations",
    "Auto",
    "ClassOneCoin",
    "Comparison",
    "CompletedVote",
    "Consensus",
    "CoupledNMF",
    "DawidSkene",
    "DawidSkeneEM",
    "DesignatedSymNMF",
    "Diagnosis",
    "EigenRatio",
    "GhoshSVD",
    "HardItemsDawidSkene",
    "HiddenMarkov",
    "HierarchicalDawidSkene",
    "JointPMF",
    "JointPMFClassifier",
    "JointPMFRecommender",
    "MajorityVote",
    "MinimaxEntropy",
    "MultiSPA",
    "NetworkConsensus",
    "OneCoin",
    "PlainSymNMF",
    "Plan",
    "RobustSymNMF",
    "Scanned",
    "SequenceAnnotations",
    "SequenceConsensus",
    "SequenceRun",
    "SketchedSubspaceClustering",
    "SpectralDawidSkene",
    "SpectralMetaLearner",
    "Stream",
    "SymNMF",
    "TensorADMM",
    "TensorAugmentation",
    "TriangularEstimation",
    "__version__",
    "aggregate",
    "agreement",
    "compare",
    "datasets",
    "diagnose",
    "exceptions",
    "factor",
    "load",
    "metrics",
    "moments",
    "nearest_neighbours",
    "plan",
    "plot",
    "read",
    "read_edges",
    "read_sequence_truth",
    "read_sequences",
    "read_truth",
    "recognise",
    "report",
    "scan",
    "simulate",
    "spans",
    "write",
]

if TYPE_CHECKING:
    from consilience import datasets, exceptions, factor, metrics, moments, plot, spans
    from consilience.aggregation.compare import compare
    from consilience.aggregation.comparison import Comparison
    from consilience.aggregation.estimators import (
        EBCC,
        GLAD,
        IBCC,
        KOS,
        Auto,
        ClassOneCoin,
        CompletedVote,
        CoupledNMF,
        DawidSkeneEM,
        DesignatedSymNMF,
        EigenRatio,
        GhoshSVD,
        HardItemsDawidSkene,
        HierarchicalDawidSkene,
        MajorityVote,
        MinimaxEntropy,
        MultiSPA,
        OneCoin,
        PlainSymNMF,
        RobustSymNMF,
        SpectralDawidSkene,
        SpectralMetaLearner,
        TensorADMM,
        TensorAugmentation,
        TriangularEstimation,
    )
    from consilience.aggregation.online import Stream
    from consilience.aggregation.registry import METHODS
    from consilience.annotations import Annotations
    from consilience.consensus import Consensus
    from consilience.datasets import simulate
    from consilience.dawid_skene import DawidSkene
    from consilience.diagnose import Diagnosis, diagnose
    from consilience.diagnose.agreement import Agreement, agreement
    from consilience.diagnose.plan import Plan, plan
    from consilience.engine.scan import scan
    from consilience.engine.scanned import Scanned
    from consilience.factor.estimators import SymNMF
    from consilience.factor.nmf_estimators import AND, SPA
    from consilience.hidden_markov import HiddenMarkov
    from consilience.io import load, read, read_truth, recognise
    from consilience.io.edges import read_edges
    from consilience.io.sequences import read_sequence_truth, read_sequences
    from consilience.io.writing import write
    from consilience.pmf.classifier import JointPMFClassifier
    from consilience.pmf.joint_pmf import JointPMF
    from consilience.pmf.recommender import JointPMFRecommender
    from consilience.report import report
    from consilience.sequence_run import SequenceRun
    from consilience.sequences import SequenceAnnotations
    from consilience.structured.aggregate import aggregate
    from consilience.structured.graph import nearest_neighbours
    from consilience.structured.network_consensus import NetworkConsensus
    from consilience.structured.sequence_consensus import SequenceConsensus
    from consilience.subspace.clustering import SketchedSubspaceClustering


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
