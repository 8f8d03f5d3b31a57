"""scikit-learn's manners for the methods: ``fit``, ``predict``, ``predict_proba``, fitted names that end in ``_``.

Each class is a thin cover over the function of the same method; there is a file for each family.  Input is a long
frame, an (items × annotators) matrix with NaN or -1 for missing, or Annotations.  On a long pandas frame the answers
are what crowd-kit would give: a series of labels indexed by item.
"""

from __future__ import annotations

from consilience.methods.base.estimator import CrowdEstimator
from consilience.methods.estimators.auto import Auto
from consilience.methods.estimators.bayes import EBCC, IBCC, HierarchicalDawidSkene
from consilience.methods.estimators.completion import CompletedVote, TensorAugmentation
from consilience.methods.estimators.em import ClassOneCoin, DawidSkeneEM, OneCoin
from consilience.methods.estimators.items import GLAD, HardItemsDawidSkene, MinimaxEntropy
from consilience.methods.estimators.moments import CoupledNMF, MultiSPA, SpectralDawidSkene, TensorADMM
from consilience.methods.estimators.spectral import (
    KOS,
    EigenRatio,
    GhoshSVD,
    SpectralMetaLearner,
    TriangularEstimation,
)
from consilience.methods.estimators.symnmf import DesignatedSymNMF, PlainSymNMF, RobustSymNMF
from consilience.methods.estimators.votes import MajorityVote

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
