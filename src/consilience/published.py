"""The settings under which the documents ran their methods.

``RobustSymNMF.as_published()`` and its like return an estimator with these parameters: the paper's weights,
initialisation, stopping rule, rounds of EM, floor and prior rule, and nothing that was added here.  Where a document
does not state a setting, the comment says where it comes from.

What cannot be switched off: the order of classes, which the documents leave open, is found jointly for all annotators;
and annotators whose pairs determine nothing (docs/chapters/symnmf.md) keep the confusions of the votes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

__all__ = ["PUBLISHED", "AsPublished"]

#: Ibrahim & Fu (2022), App. C: relative change 1e-6, α = 1e-6, Q = I.  The tables of errors come out with ten rounds of
#: EM, confusions of at least 1e-3 and equal classes; the text states none of the three, nor the start of (11).
_SYMNMF: Mapping[str, Any] = {
    "rotations": 1,
    "alpha": 1e-6,
    "decay": None,
    "shrinkage": 0.0,
    "prior": "uniform",
    "em_rounds": 10,
    "em_floor": 1e-3,
}

#: Class name: parameters.
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "RobustSymNMF": {
        **_SYMNMF,
        "init": "random",
        "starts": 1,
        "count_weights": False,
        "xi": 1e-6,
        "radius": 1.0,
        "tol": 1e-6,
    },
    "DesignatedSymNMF": {**_SYMNMF, "rounds": 1},
    "PlainSymNMF": _SYMNMF,
    # baselines of that paper, after Ibrahim et al. (2019): vertices as they are; coupled factors from MultiSPA
    "MultiSPA": {"shrinkage": 0.0, "shrink_columns": False, "em_rounds": 10, "em_floor": 1e-3},
    "CoupledNMF": {"shrinkage": 0.0, "init": "multispa", "tol": 1e-6, "em_rounds": 10, "em_floor": 1e-3},
    # MV-EM: ten rounds from the votes
    "DawidSkeneEM": {"prior": "uniform", "max_iter": 10, "tol": 0.0, "accelerate": False, "floor": 1e-3},
    # Traganitis (2019), Algorithm 3.1: random start, every statistic counts the same
    "TensorADMM": {"init": "random", "starts": 1, "count_weights": False, "shrinkage": 0.0, "fallback": False},
    # Algorithms 4.1 and 4.2, and 4.3 and 4.4: δ of (4.14), where only agreement of neighbours counts
    "SequenceConsensus": {"method": "tensor-admm+hmm+em", "smoothing": 0.0, "shrinkage": 0.0, "valid": False},
    "NetworkConsensus": {
        "method": "tensor-admm",
        "correlation": 0.0,
        "field": "uniform",
        "inference": "icm",
        "smoothing": 0.0,
        "shrinkage": 0.0,
    },
    # section 2.6: λ = 10⁶, five neighbours by Euclidean distance
    "SketchedSubspaceClustering": {"lam": 1e6, "n_neighbors": 5, "similarity": "euclidean", "weights": "binary"},
    # Li & Liang (2017), section 7, and their released code: absolute thresholds, η = 0.5 / D of the sums over samples
    "AND": {
        "alpha": 0.1,
        "decay": 1.1,
        "relative": False,
        "max_iter": 200,
        "inner_steps": 50,
        "step_size": "released",
        "noise_multiple": 0.0,
        "tol": 0.0,
    },
    # Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", Algorithm 1 and (21)-(22).  S1 is the first half;
    # give split=M for the document's M (3 in Table I, 5 in Tables III and IV).
    "JointPMF": {
        "init": "cnmf-spa",
        "split": "fixed",
        "weights": "pseudo-inverse",
        "softening": 0.0,
        "smoothing": 0.0,
        "n_starts": 1,
    },
}


class AsPublished:
    """Gives an estimator ``as_published``."""

    @classmethod
    def as_published(cls, *arguments: Any, **changes: Any) -> Self:
        """Return the estimator as its document ran it; ``arguments`` and ``changes`` are parameters of your own.

        The settings, and where they come from, are in :mod:`consilience.published`.
        """
        return cls(*arguments, **{**PUBLISHED[cls.__name__], **changes})
