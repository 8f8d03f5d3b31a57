"""The one-coin model: each annotator is right with a probability of their own, whatever the class."""

from __future__ import annotations

from typing import Literal

from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import Callback, OneCoinStep, run_em
from consilience.fitting.fit import Fit, vote_start

__all__ = ["one_coin"]


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
    """Fit by EM; the parameters are those of :func:`consilience.methods.ds_em.dawid_skene_em`."""
    step = OneCoinStep(smoothing, prior == "learned")
    passes = passes_of(annotations)
    start = vote_start(passes, step)
    result = run_em(passes, start, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    return Fit.from_em(passes, result, tol)
