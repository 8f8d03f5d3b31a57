"""Crowds that tick several options of each item, with a known truth.

Option o is true of an item with probability π_o, drawn between 0.05 and 0.5.  Annotator m ticks a true option with
log-odds s_mo + d, a false one with log-odds f_mo + d, where

    s_mo = logit(sensitivity) + skill_m + readiness_m + noise,    f_mo = logit(1 - specificity) - skill_m + readiness_m
           + noise.

Skill and readiness belong to the annotator, so they are the same for all options; the noise of standard deviation
``deviation`` belongs to one option of one annotator; d, of standard deviation ``hard``, to one option of one item: all
annotators misjudge it alike.  Spammers tick everything with the same probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.data.option_sets import joined_options
from consilience.data.set_labels import quiet_about_blanks
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.validation import whole

__all__ = ["MultiSimulation", "simulate_multi"]

_SPAM = 0.2


@dataclass(frozen=True, eq=False, slots=True)
class MultiSimulation:
    """A simulated crowd and what it was drawn from."""

    annotations: Annotations  #: labels are options joined by ``|``; blank answers are in ``annotations.blank``
    truth: dict[int, str]  #: the set of every item
    true: Bools  #: whether each option is true of each item, (N, O)
    sensitivity: Floats  #: of every annotator and option, (M, O)
    specificity: Floats  #: of every annotator and option, (M, O)
    options: tuple[str, ...]


def simulate_multi(
    n_items: int = 400,
    n_annotators: int = 40,
    n_options: int = 8,
    *,
    labels_per_item: int = 5,
    sensitivity: float = 0.75,
    specificity: float = 0.92,
    skill: float = 0.8,
    deviation: float = 0.4,
    hard: float = 0.0,
    spammers: float = 0.0,
    together: float = 0.0,
    seed: int = 0,
) -> MultiSimulation:
    """Draw a crowd that ticks options.

    Parameters
    ----------
    n_items, n_annotators, n_options
        N, M and O.  Items are named 0, 1, …; annotators "a0", "a1", …; options "o0", "o1", ….
    labels_per_item
        Every item is answered by this many annotators, drawn at random.
    sensitivity, specificity
        Of a middling annotator.
    skill
        Standard deviation of skill; that of readiness is half of it.
    deviation
        Standard deviation of what is special to an annotator and an option.
    hard
        Standard deviation of what all annotators misjudge of an option of an item.
    spammers
        Share of annotators who tick at random.
    together
        Probability that the second option of two neighbours has the truth of the first.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> simulate_multi(100, 10, 4).annotations.n_items
    100
    """
    for name, value in (("n_items", n_items), ("n_annotators", n_annotators), ("n_options", n_options)):
        whole(name, value)
    whole("labels_per_item", labels_per_item, n_annotators, "annotators")
    for name, share in (("sensitivity", sensitivity), ("specificity", specificity)):
        if not 0.0 < share < 1.0:
            raise ParameterError(f"{name} must be a number between 0 and 1, not {share!r}")
    rng = np.random.default_rng(seed)
    N, M, O, L = n_items, n_annotators, n_options, labels_per_item  # noqa: E741 - the symbol
    prior = rng.uniform(0.05, 0.5, O)
    able, ready = rng.normal(0.0, skill, (M, 1)), rng.normal(0.0, 0.5 * skill, (M, 1))
    yes = np.log(sensitivity / (1.0 - sensitivity)) + able + ready + rng.normal(0.0, deviation, (M, O))
    no = np.log((1.0 - specificity) / specificity) - able + ready + rng.normal(0.0, deviation, (M, O))
    spam = np.arange(M) < round(spammers * M)
    yes[spam] = no[spam] = np.log(_SPAM / (1.0 - _SPAM))
    true = rng.random((N, O)) < prior
    follow = rng.random((N, O // 2)) < together
    true[:, 1::2] = np.where(follow, true[:, 0 : 2 * (O // 2) : 2], true[:, 1::2])
    shift = rng.normal(0.0, hard, (N, 1, O))
    who = np.argsort(rng.random((N, M)), axis=1)[:, :L]
    odds = np.where(true[:, None, :], yes[who], no[who]) + shift
    ticked = rng.random((N, L, O)) < 1.0 / (1.0 + np.exp(-odds))
    options = tuple(f"o{o}" for o in range(O))
    names = Ids(pa.array(options, pa.string()))
    rows = ticked.reshape(-1, O)
    texts = joined_options(names, *_sparse(rows))
    with quiet_about_blanks():
        annotations = Annotations.from_columns(
            pa.array(np.repeat(np.arange(N), L)),
            pa.array([f"a{m}" for m in range(M)]).take(pa.array(who.ravel())),
            texts,
            origin=Origin(frame="pandas"),
            where="the simulation",
        )
    sets = joined_options(names, *_sparse(true)).to_pylist()
    kept = 1.0 / (1.0 + np.exp(-yes)), 1.0 / (1.0 + np.exp(no))
    return MultiSimulation(annotations, dict(enumerate(sets)), true, *kept, options)


def _sparse(rows: Bools) -> tuple[Ints, Ints]:
    first = np.concatenate([[0], np.cumsum(rows.sum(axis=1))])
    return first, np.nonzero(rows)[1]
