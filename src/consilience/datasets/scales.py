"""Crowds who answer on a scale, drawn from the model of :mod:`consilience.fitting.ordinal`.

With levels 0 … K - 1, annotator m says i of truth k in proportion to

    exp( c_m (i - (K - 1) / 2)  -  w_m |i - k| ),      c_m ~ Normal(0, severity²),   w_m uniform in a range.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilience.data.ids import Ids
from consilience.datasets.simulation import Simulation, class_shares
from consilience.models.dawid_skene import DawidSkene
from consilience.validation import number, whole

__all__ = ["simulate_scale"]


def simulate_scale(
    n_items: int = 1000,
    n_annotators: int = 50,
    n_levels: int = 5,
    *,
    labels_per_item: int = 5,
    severity: float = 0.5,
    sharpness: tuple[float, float] = (0.5, 2.0),
    spammers: float = 0.0,
    prior: Sequence[float] | None = None,
    seed: int = 0,
) -> Simulation:
    """Draw a crowd who answers on a scale.

    Annotators are drawn before items, so that a seed yields the same annotators for any number of items.

    Parameters
    ----------
    n_items, n_annotators, n_levels
        N, M and K.  Items and levels are named 0, 1, …; annotators "a0", "a1", ….
    labels_per_item
        Every item is labelled by this many annotators, drawn at random.
    severity
        Standard deviation of the severity c.
    sharpness
        Range of the sharpness w: an annotator says a neighbour of the truth exp(-w) times as often as the truth.
    spammers
        Share of the annotators whose sharpness is 0.
    prior
        Probability of each level, (K,); uniform if not given.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> crowd = simulate_scale(200, 10, 5, seed=1)
    >>> crowd.annotations
    <Annotations: 1000 labels, 200 items, 10 annotators, 5 classes>
    """
    whole("n_items", n_items)
    whole("n_annotators", n_annotators)
    whole("n_levels", n_levels, least=2)
    whole("seed", seed, least=0)
    number("severity", severity, zero=True)
    rng = np.random.default_rng(seed)
    level = np.arange(n_levels)
    c = severity * rng.standard_normal(n_annotators)
    w = rng.uniform(*sharpness, n_annotators)
    spams = rng.random(n_annotators) < spammers
    w[spams] = 0.0
    height = (level - (n_levels - 1) / 2.0)[:, None]
    scores = c[:, None, None] * height - w[:, None, None] * np.abs(np.subtract.outer(level, level))
    confusions = np.exp(scores)
    confusions /= confusions.sum(axis=1, keepdims=True)
    names = Ids([f"a{m}" for m in range(n_annotators)])
    model = DawidSkene(class_shares(prior, n_levels), confusions, Ids.range(n_levels), names)
    annotations, truth = model.sample(n_items, labels_per_item=min(labels_per_item, n_annotators), random_state=rng)
    return Simulation(annotations, truth, model, tuple(np.where(spams, "spammer", "ordinary").tolist()))
