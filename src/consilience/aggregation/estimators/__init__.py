"""scikit-learn's manners for the methods: ``fit``, ``predict``, ``predict_proba``, fitted names that end in ``_``.

Each class is a thin cover over the function of the same method; there is a file for each family.  Input is a long
frame, an (items × annotators) matrix with NaN or -1 for missing, or Annotations.  On a long pandas frame the answers
are what crowd-kit would give: a series of labels indexed by item.
"""

from __future__ import annotations

from consilience.aggregation.estimators.auto import Auto
from consilience.aggregation.estimators.base import CrowdEstimator
from consilience.aggregation.estimators.bayes import EBCC, IBCC, HierarchicalDawidSkene
from consilience.aggregation.estimators.completion import CompletedVote, TensorAugmentation
from consilience.aggregation.estimators.em import ClassOneCoin, DawidSkeneEM, OneCoin
from consilience.aggregation.estimators.items import GLAD, HardItemsDawidSkene, MinimaxEntropy
from consilience.aggregation.estimators.moments import CoupledNMF, MultiSPA, SpectralDawidSkene, TensorADMM
from consilience.aggregation.estimators.spectral import (
    KOS,
    EigenRatio,
    GhoshSVD,
    SpectralMetaLearner,
    TriangularEstimation,
)
from consilience.aggregation.estimators.symnmf import DesignatedSymNMF, PlainSymNMF, RobustSymNMF
from consilience.aggregation.estimators.votes import MajorityVote

__all__ = [
    "EBCC",
    "GLAD",
    "IBCC",
    "KOS",
    "Auto",
    "ClassOneCoin",
    "CompletedVote",
    "CoupledNMF",
    "CrowdEstimator",
    "DawidSkeneEM",
    "DesignatedSymNMF",
    "EigenRatio",
    "GhoshSVD",
    "HardItemsDawidSkene",
    "HierarchicalDawidSkene",
    "MajorityVote",
    "MinimaxEntropy",
    "MultiSPA",
    "OneCoin",
    "PlainSymNMF",
    "RobustSymNMF",
    "SpectralDawidSkene",
    "SpectralMetaLearner",
    "TensorADMM",
    "TensorAugmentation",
    "TriangularEstimation",
]
