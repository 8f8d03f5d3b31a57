"""``cs.route``: cheap judges first, stronger ones or a person where these are unsure, below a verified error ceiling.

Judges form stages, the cheapest first.  An item is accepted at the first stage after which its most probable class has
a probability of at least λ; after the last stage it goes to a person, whose answer counts as right (or is accepted, if
no person can be asked).  λ is chosen by *learn then test* (Angelopoulos et al. 2021): probabilities are learned from
one part of the known answers.  On the other part, with n answers of which e(λ) get a wrong label, each

    H_λ: the error exceeds the ceiling α,        p_λ = Pr(Binomial(n, α) ≤ e(λ)),

is tested in a fixed order, from the largest λ down, until one cannot be rejected at level δ.  So the error of the last
λ that was rejected exceeds α with probability at most δ, however wrong the probabilities are, if the known answers are
a random sample of the items.  Cost falls with λ, so that λ is also the cheapest.

A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then test: calibrating predictive algorithms
to achieve risk control" (2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.plan_input import for_annotators
from consilience.exceptions import DataError, ParameterError
from consilience.inference.constants import LEARN, THRESHOLDS
from consilience.inference.known import known_answers, labels_alone
from consilience.inference.routing_result import Routing
from consilience.kernels._arrays import Bools, Codes, Floats, Ints

__all__ = ["Routing", "route"]


def route(
    data: Any,
    gold: Any = None,
    *,
    costs: Any = None,
    stages: Sequence[Sequence[Any]] | None = None,
    person: float | None = None,
    ceiling: float = 0.05,
    delta: float = 0.05,
    seed: int = 0,
) -> Routing:
    """Find whom to ask about which items, so that labels are cheap and their error is below a ceiling.

    Parameters
    ----------
    data
        A consensus that keeps its labels, or labels in any form that :func:`consilience.aggregate` takes: a pilot in
        which every judge labelled the items.
    gold
        Known answers to a random sample of the items, as for :func:`consilience.estimate`.
    costs
        Cost of a label, as for :func:`consilience.plan`: one number, or one for each judge; 1 by default.
    stages
        Judges asked first, second, …; by default those with equal costs together, the cheapest first.
    person
        Cost of a person's answer, who is asked where all judges are unsure; None if there is nobody to ask.
    ceiling
        Largest acceptable share of wrong labels.
    delta
        Largest acceptable probability that the error exceeds the ceiling.
    seed
        Seed of the consensus and of the split of the known answers.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(2000, 3, 2, labels_per_item=3, accuracy=(0.8, 0.95), seed=1)
    >>> gold = {item: int(crowd.truth[item]) for item in range(300)}
    >>> found = cs.route(crowd.annotations, gold, costs={"a0": 1, "a1": 1, "a2": 10}, person=100)
    >>> found.verified and found.cost < 112
    True
    """
    for name, value in (("ceiling", ceiling), ("delta", delta)):
        if not 0 < value < 1:
            raise ParameterError(f"{name} must be a share between 0 and 1, not {value!r}")
    if person is not None and not person > 0:
        raise ParameterError(f"person must be the cost of an answer, a number > 0, not {person!r}")
    a = labels_alone(data, "route")
    truth = known_answers(data, gold, a)[0]
    price = for_annotators(costs, a.annotator_ids, "cost", missing=None)
    price = np.ones(a.n_annotators) if price is None else price
    stage = _stages(a, price, stages)
    learn, test = _split(a, truth, ceiling, delta, seed)
    predictor = _learned(a, truth, learn, seed)
    n_stages = int(stage.max()) + 1
    sure, best = _confidence(a, predictor, stage, n_stages)
    grid = _grid(sure)
    decided = np.stack([_decided(sure, threshold) for threshold in grid])
    errors = np.array([_wrong(at[test], best[test], truth[test], person is not None) for at in decided], np.int64)
    chosen, p = _tested(errors, test.size, ceiling, delta)
    total = np.array([price[stage == s].sum() for s in range(n_stages)])
    at = decided[max(chosen, 0)]
    return Routing(
        stages=tuple(tuple(a.annotators[stage == s].tolist()) for s in range(n_stages)),
        costs=tuple(total.tolist()),
        person=person,
        threshold=float(grid[max(chosen, 0)]),
        verified=chosen >= 0,
        ceiling=ceiling,
        delta=delta,
        p_value=float(p[max(chosen, 0)]),
        wrong=int(errors[max(chosen, 0)]),
        tested=int(test.size),
        learned=int(learn.size),
        decided=tuple(np.bincount(at, minlength=n_stages + 1).tolist()),
        frame=a.origin.frame,
        item_column=a.origin.item,
        classes=a.class_ids,
        predictor=predictor,
    )


def _stages(a: Annotations, price: Floats, given: Sequence[Sequence[Any]] | None) -> Ints:
    """Return the stage of every judge, -1 for those who are never asked."""
    if given is None:
        return np.unique(price, return_inverse=True)[1].astype(np.int64)
    stage = np.full(a.n_annotators, -1, np.int64)
    place: Mapping[str, int] = {str(name): m for m, name in enumerate(a.annotators)}
    for s, names in enumerate(given):
        for name in names:
            if str(name) not in place:
                raise ParameterError(f"stages names {name!r}, who is not an annotator of these labels")
            stage[place[str(name)]] = s
    if not len(given) or not all(len(names) for names in given):
        raise ParameterError("stages must name at least one judge each")
    return stage


def _split(a: Annotations, truth: Codes, ceiling: float, delta: float, seed: int) -> tuple[Ints, Ints]:
    """Return the items whose answers are learned from, and those that test."""
    # by name, so that the split does not depend on the order of the rows
    named = np.argsort(a.item_ids.sorted()[1])
    known = named[(truth[named] >= 0) & (a.labels_per_item[named] > 0)]
    # without a single error, p = (1 - ceiling)^n
    fewest = int(np.ceil(np.log(delta) / np.log1p(-ceiling)))
    n = min(round(LEARN * known.size), known.size - fewest)
    if n < 0:
        raise DataError(
            f"{known.size} known answers cannot verify an error below {ceiling:g} with probability {1 - delta:g}: at "
            f"least {fewest} are needed even if all labels are right, and about twice as many otherwise"
        )
    shuffled = np.random.default_rng(seed).permutation(known)
    return shuffled[:n], shuffled[n:]


def _learned(a: Annotations, truth: Codes, learn: Ints, seed: int) -> Any:
    """Return a function from labels of these judges to probabilities, (N, K), that has seen no answer of the test."""
    from consilience.auto.auto import auto

    shown = np.full(a.n_items, -1, np.int32)
    shown[learn] = truth[learn]
    shown[shown >= a.n_classes] = -1
    fit = auto(a._with(gold=shown) if learn.size else a, random_state=seed)
    pool = fit.predictor
    return fit.model.posterior if pool is None else lambda labels: pool(fit.model.recoded(labels))[0]


def _confidence(a: Annotations, predictor: Any, stage: Ints, n_stages: int) -> tuple[Floats, Codes]:
    """Return the probability of the most probable class after each stage, and that class, (N, S)."""
    sure, best = np.zeros((a.n_items, n_stages)), np.zeros((a.n_items, n_stages), np.int64)
    for s in range(n_stages):
        part = a.select_annotators(np.flatnonzero((stage >= 0) & (stage <= s)))
        posterior = predictor(part)
        best[:, s] = posterior.argmax(axis=1)
        sure[:, s] = np.where(part.labels_per_item > 0, posterior.max(axis=1), 0.0)
    return sure, best


def _grid(sure: Floats) -> Floats:
    """Return the thresholds in the order of the tests; above the first, no item is accepted."""
    levels = np.unique(np.quantile(sure, np.linspace(0.0, 1.0, THRESHOLDS)))[::-1]
    return np.concatenate([[np.inf], levels])


def _decided(sure: Floats, threshold: float) -> Ints:
    """Return the stage at which every item is accepted; the number of stages if none."""
    enough: Bools = sure >= threshold
    at: Ints = np.where(enough.any(axis=1), enough.argmax(axis=1), sure.shape[1])
    return at


def _wrong(at: Ints, best: Codes, truth: Codes, person: bool) -> int:
    """Return how many items get a wrong label; a person's is right."""
    S = best.shape[1]
    label = best[np.arange(at.size), np.minimum(at, S - 1)]
    return int(((label != truth) & ~(person & (at == S))).sum())


def _tested(errors: Ints, n: int, ceiling: float, delta: float) -> tuple[int, Floats]:
    """Return the last threshold whose error is rejected to exceed the ceiling, -1 if none, and all p-values."""
    from scipy.stats import binom

    p = np.asarray(binom.cdf(errors, n, ceiling), np.float64)
    accepted = np.flatnonzero(p > delta)
    return (int(accepted[0]) if accepted.size else p.size) - 1, p
