"""The one-coin model: each annotator has one accuracy, whatever the class."""

from __future__ import annotations

from typing import Any, Literal

from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import Callback, MStep, OneCoinStep, run_em
from consilience.fitting.fit import Fit, vote_start
from consilience.methods.base.estimator import SeededEstimator
from consilience.methods.base.method import Method

__all__ = ["METHOD", "OneCoin", "fit_coins", "one_coin"]


class OneCoin(SeededEstimator):
    """The one-coin model by EM: each annotator is right with one probability, whatever the class.

    The parameters are those of :class:`DawidSkeneEM`, without shrinkage.
    """

    _method = "one-coin"

    smoothing: float = 0.0
    prior: Literal["learned", "uniform"] = "learned"
    max_iter: int = 1000
    tol: float = 1e-7
    accelerate: bool = True


def one_coin(
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
    step = OneCoinStep(smoothing, prior == "learned")
    return fit_coins(annotations, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)


def fit_coins(annotations: Labels, step: MStep, *, tol: float, **options: Any) -> Fit:
    """Return the fit by EM with this M-step, from vote shares."""
    passes = passes_of(annotations)
    return Fit.from_em(passes, run_em(passes, vote_start(passes, step), step, tol=tol, **options), tol)


METHOD = Method("one-coin", one_coin, "OneCoin", "one accuracy for every annotator, by EM", everywhere=True)
