"""EM steps with leaps between them (SQUAREM): parameters in, better parameters out, whatever the model.

Plain EM creeps when annotators are poor.  SQUAREM (Varadhan & Roland 2008, scheme S3) extrapolates along two EM steps

    r = θ1 - θ0,   v = (θ2 - θ1) - r,   a = -‖r‖ / ‖v‖,   θ' = θ0 - 2 a r + a² v,

with a ≤ -1, here on the probabilities themselves, pulled back onto the simplex, and with norms that weigh probabilities
by the labels behind them (their information), so that annotators with three labels do not set the step.  The pass at
θ' tells L(θ') and is the first step of the next leap: two passes a leap.  When L(θ') is below L(θ1), θ' is dropped and
EM goes on from θ2: the recorded objective never falls.

R. Varadhan and C. Roland, "Simple and globally convergent methods for accelerating the convergence of any EM
algorithm", Scandinavian Journal of Statistics 35 (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from consilience.engine.checkpoint import Keeper
from consilience.engine.progress import Callback, Progress
from consilience.fitting.ledger import Ended, Ledger, Model, Pass, Stop
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR

__all__ = ["Callback", "Ended", "Leaping", "Progress", "leap", "run_squarem", "stride"]

At = TypeVar("At")
Sums = TypeVar("Sums")


class Leaping(Model[At, Sums], Protocol[At, Sums]):
    """A model that knows where leaps lead."""

    def leap(self, one: At, two: At, three: At, sums: Sums, /) -> At | None:
        """Extrapolate along two EM steps (:func:`leap`), the sums being those of the second."""


def run_squarem(
    model: Leaping[At, Sums],
    start: At,
    *,
    max_iter: int,
    tol: float,
    accelerate: bool = True,
    callback: Callback | None = None,
    labels: int = 0,
    keeper: Keeper | None = None,
) -> Ended[At]:
    """Run EM from ``start`` until an EM step changes the objective by at most ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  ``labels`` are those of one pass, for whom is told.  A ``keeper``
    keeps the state between leaps; where it has one, EM goes on from there.  Parameters are then tuples of arrays.
    """
    passes = Ledger(model, start, max_iter, tol, callback, labels)
    try:
        here = (_taken_up(passes, keeper) if keeper else None) or passes(start)
        while True:
            if keeper:
                passes.keep(keeper, [here.at, here.after], objective=here.objective)
            there = passes(here.after, here)
            far = model.leap(here.at, there.at, there.after, there.sums) if accelerate else None
            if far is None:
                here = there
                continue
            here = passes(far)
            if here.objective < there.objective:
                here = passes(there.after, there)
    except Stop:
        return passes.ended()


def _taken_up(passes: Ledger[At, Sums], keeper: Keeper) -> Pass[At, Sums] | None:
    found = passes.taken_up(keeper, 2)
    if found is None:
        return None
    (at, after), content = found
    sums: Any = None  # those of this pass are not asked for again
    return Pass(at, content["objective"], after, sums)


def stride(r_norm: float, v_norm: float) -> float | None:
    """Give a = -‖r‖ / ‖v‖ for squared norms; None where it would be a plain EM step or less."""
    return None if v_norm <= 0 or r_norm <= v_norm else -float(np.sqrt(r_norm / v_norm))


def leap(one: Sequence[Floats], two: Sequence[Floats], three: Sequence[Floats], weights: Any) -> list[Floats] | None:
    """Go from three points in a row, arrays of probabilities each, to where SQUAREM S3 leads; None for a plain step.

    ``weights`` are the labels behind each array.  Columns of the result need not sum to one.
    """
    r = [b - a for a, b in zip(one, two, strict=True)]
    v = [(c - b) - d for b, c, d in zip(two, three, r, strict=True)]
    r_norm = sum(float((w * x * x).sum()) for w, x in zip(weights, r, strict=True))
    v_norm = sum(float((w * x * x).sum()) for w, x in zip(weights, v, strict=True))
    a = stride(r_norm, v_norm)
    if a is None:
        return None
    far = [t - (2 * a) * x + (a * a) * y for t, x, y in zip(one, r, v, strict=True)]
    return [np.maximum(x, 0.1 * FLOOR) for x in far]
