"""The class-conditional one-coin model: each annotator has an accuracy for every class.

    Pr(m says i | truth k) = p_mk where i = k, and (1 - p_mk) / (K - 1) where not.

An annotator has K accuracies where Dawid and Skene have K (K - 1) free probabilities, which suits many classes and few
labels.  Unlike the one-coin model it allows for annotators who miss one class and not another.
With two classes the model is Dawid and Skene's.

======== ============================= ============
symbol   name                          shape
======== ============================= ============
p_mk     ``confusions[m, k, k]``       (M, K)
======== ============================= ============
"""

from __future__ import annotations

from typing import Literal

from consilience.engine.passes import Labels
from consilience.fitting.em import Callback, ClassOneCoinStep
from consilience.fitting.fit import Fit
from consilience.methods.base.method import Method
from consilience.methods.one_coin import OneCoin, fit_coins

__all__ = ["METHOD", "ClassOneCoin", "class_one_coin"]


class ClassOneCoin(OneCoin):
    r"""The class-conditional one-coin model by EM: each annotator has an accuracy for every class.

    .. math:: A_m(i, k) = p_{mk} \text{ where } i = k, \qquad (1 - p_{mk}) / (K - 1) \text{ where not}

    The parameters are those of :class:`DawidSkeneEM`, without shrinkage.
    """

    _method = "class-one-coin"


def class_one_coin(
    annotations: Labels,
    *,
    smoothing: float = 0.0,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Fit:
    """Fit by EM; the parameters are those of :class:`consilience.DawidSkeneEM`, without shrinkage."""
    step = ClassOneCoinStep(smoothing, prior == "learned")
    return fit_coins(annotations, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)


METHOD = Method(
    "class-one-coin",
    class_one_coin,
    "ClassOneCoin",
    "an accuracy for every annotator and class, by EM",
    everywhere=True,
)
