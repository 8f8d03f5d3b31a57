"""Numbers with a known truth: annotators with bias, scale and noise, and a few slips.

An annotator answers ``centre + bias + scale · (value - centre) + noise``.  Noise has Student's t distribution, with
the given standard deviation.  A slip is an answer in another unit (×10 or ÷10).  Careless annotators answer
independently of the item.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids, encode
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Floats
from consilience.models.dawid_skene import _fixed_degree
from consilience.validation import whole

__all__ = ["NumericSimulation", "simulate_numeric"]


@dataclass(frozen=True, eq=False, slots=True)
class NumericSimulation:
    """A simulated crowd and what it was drawn from."""

    annotations: Annotations
    truth: Floats  #: value of every item, (N,)
    bias: Floats  #: (M,)
    scale: Floats  #: (M,)
    noise: Floats  #: standard deviation, (M,)
    slip: Bools  #: whether an answer is in another unit, in the order of the annotations, (labels,)


def simulate_numeric(
    n_items: int = 500,
    n_annotators: int = 30,
    *,
    labels_per_item: int = 5,
    centre: float = 50.0,
    spread: float = 15.0,
    bias: float = 5.0,
    scale: float = 0.2,
    noise: tuple[float, float] = (4.0, 16.0),
    freedom: float = 5.0,
    slips: float = 0.0,
    careless: float = 0.0,
    seed: int = 0,
) -> NumericSimulation:
    """Draw numbers.

    Parameters
    ----------
    n_items, n_annotators
        N and M.  Items are named 0, 1, …; annotators "a0", "a1", ….
    labels_per_item
        Every item gets answers of this many annotators, drawn at random.
    centre, spread
        Mean and standard deviation of the values, which are normal.
    bias, scale
        Standard deviations over annotators of the bias, and of the scale around 1.
    noise
        The standard deviation of an annotator's noise is drawn uniformly between these.
    freedom
        Degrees of freedom of the noise, more than 2.
    slips
        Probability that an answer is in another unit.
    careless
        Share of annotators whose answers do not depend on the item.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> crowd = simulate_numeric(100, 10, seed=1)
    >>> crowd.annotations.n_labels
    500
    """
    N, M, L = whole("n_items", n_items), whole("n_annotators", n_annotators), whole("labels_per_item", labels_per_item)
    if not freedom > 2:
        raise ParameterError(f"freedom must be more than 2, not {freedom!r}")
    for name, share in (("slips", slips), ("careless", careless)):
        if not 0.0 <= share <= 1.0:
            raise ParameterError(f"{name} must be a number from 0 to 1, not {share!r}")
    rng = np.random.default_rng(seed)
    of_bias, of_scale = rng.normal(0.0, bias, M), rng.normal(1.0, scale, M)
    of_noise = rng.uniform(*noise, M)
    idle = rng.random(M) < careless
    truth = rng.normal(centre, spread, N)
    item, who = _fixed_degree(rng, N, M, L)
    error = of_noise[who] * rng.standard_t(freedom, N * L) * np.sqrt((freedom - 2.0) / freedom)
    about = np.where(idle[who], rng.permutation(truth)[rng.integers(0, N, N * L)], truth[item])
    y = centre + of_bias[who] + of_scale[who] * (about - centre) + error
    slip = rng.random(N * L) < slips
    y = np.where(slip, y * np.where(rng.random(N * L) < 0.5, 10.0, 0.1), y)
    code, ids = encode(Ids(y).to_arrow())
    classes, rank = ids.sorted()
    annotations = Annotations(
        np.arange(0, N * L + 1, L),
        who,
        rank[code],
        items=Ids.range(N),
        annotators=Ids([f"a{m}" for m in range(M)]),
        classes=classes,
    )
    return NumericSimulation(annotations, truth, of_bias, np.where(idle, 0.0, of_scale), of_noise, slip)
