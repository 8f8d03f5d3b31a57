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
    "EBCC": "consilience.methods.estimators",
    "GLAD": "consilience.methods.estimators",
    "IBCC": "consilience.methods.estimators",
    "KOS": "consilience.methods.estimators",
    "METHODS": "consilience.methods.base.registry",
    "SPA": "consilience.factor.nmf_estimators",
    "Agreement": "consilience.diagnose.agreement",
    "Annotations": "consilience.data.annotations",
    "Auto": "consilience.methods.estimators",
    "ClassOneCoin": "consilience.methods.estimators",
    "Comparison": "consilience.compare.comparison",
    "CompletedVote": "consilience.methods.estimators",
    "Consensus": "consilience.runs.consensus",
    "CoupledNMF": "consilience.methods.estimators",
    "DawidSkene": "consilience.models.dawid_skene",
    "DawidSkeneEM": "consilience.methods.estimators",
    "DesignatedSymNMF": "consilience.methods.estimators",
    "Diagnosis": "consilience.diagnose",
    "EigenRatio": "consilience.methods.estimators",
    "GhoshSVD": "consilience.methods.estimators",
    "HardItemsDawidSkene": "consilience.methods.estimators",
    "HiddenMarkov": "consilience.models.hidden_markov",
    "HierarchicalDawidSkene": "consilience.methods.estimators",
    "JointPMF": "consilience.pmf.joint_pmf",
    "JointPMFClassifier": "consilience.pmf.classifier",
    "JointPMFRecommender": "consilience.pmf.recommender",
    "MajorityVote": "consilience.methods.estimators",
    "MinimaxEntropy": "consilience.methods.estimators",
    "MultiSPA": "consilience.methods.estimators",
    "NetworkConsensus": "consilience.structured.network_consensus",
    "OneCoin": "consilience.methods.estimators",
    "PlainSymNMF": "consilience.methods.estimators",
    "Plan": "consilience.diagnose.plan",
    "RobustSymNMF": "consilience.methods.estimators",
    "Scanned": "consilience.engine.scanned",
    "SequenceAnnotations": "consilience.data.sequences",
    "SequenceConsensus": "consilience.structured.sequence_consensus",
    "SequenceRun": "consilience.runs.sequence_run",
    "SketchedSubspaceClustering": "consilience.subspace.clustering",
    "SpectralDawidSkene": "consilience.methods.estimators",
    "SpectralMetaLearner": "consilience.methods.estimators",
    "Stream": "consilience.streams.stream",
    "SymNMF": "consilience.factor.estimators",
    "TensorADMM": "consilience.methods.estimators",
    "TensorAugmentation": "consilience.methods.estimators",
    "TriangularEstimation": "consilience.methods.estimators",
    "aggregate": "consilience.api",
    "agreement": "consilience.diagnose.agreement",
    "compare": "consilience.compare.compare",
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
    from consilience.api import aggregate
    from consilience.compare.compare import compare
    from consilience.compare.comparison import Comparison
    from consilience.data.annotations import Annotations
    from consilience.data.sequences import SequenceAnnotations
    from consilience.datasets import simulate
    from consilience.diagnose import Diagnosis, diagnose
    from consilience.diagnose.agreement import Agreement, agreement
    from consilience.diagnose.plan import Plan, plan
    from consilience.engine.scan import scan
    from consilience.engine.scanned import Scanned
    from consilience.factor.estimators import SymNMF
    from consilience.factor.nmf_estimators import AND, SPA
    from consilience.io import load, read, read_truth, recognise
    from consilience.io.edges import read_edges
    from consilience.io.sequences import read_sequence_truth, read_sequences
    from consilience.io.writing import write
    from consilience.methods.base.registry import METHODS
    from consilience.methods.estimators import (
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
    from consilience.models.dawid_skene import DawidSkene
    from consilience.models.hidden_markov import HiddenMarkov
    from consilience.pmf.classifier import JointPMFClassifier
    from consilience.pmf.joint_pmf import JointPMF
    from consilience.pmf.recommender import JointPMFRecommender
    from consilience.report import report
    from consilience.runs.consensus import Consensus
    from consilience.runs.sequence_run import SequenceRun
    from consilience.streams.stream import Stream
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
