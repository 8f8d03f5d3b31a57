"""What tests of methods share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.data.ids import Ids
from consilience.fitting.em import Progress
from consilience.fitting.fit import Fit
from consilience.kernels import blocks
from consilience.kernels._arrays import Ints
from consilience.models.dawid_skene import DawidSkene


@pytest.fixture(scope="module")
def crowd() -> cs.datasets.Simulation:
    """The crowd on which methods are compared."""
    return cs.simulate(300, 9, 2, experts=0.2, spammers=0.3, seed=3)


#: One parameter, ``matrix``: labels of items that a model with parameters of items too may trip over.
odd_crowds = pytest.mark.parametrize(
    "matrix",
    [
        np.array([[0, 1], [1, 1], [0, 0], [1, 0]]),
        np.array([[0], [1], [0]]),
        np.zeros((4, 3), int),
        np.array([[1]]),
        np.array([[0, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 2, 0], [-1, -1, 2, 2]]),
    ],
    ids=["two annotators", "one annotator", "one class", "one label", "two crowds"],
)


def labels_of(who: Ints, said: Ints, M: int, K: int) -> cs.Annotations:
    """Annotations where every item has as many labels: ``who`` says what, (N, labels of an item) both."""
    N, per_item = who.shape
    return cs.Annotations(
        np.arange(N + 1) * per_item,
        who.ravel(),
        said.ravel(),
        items=Ids.range(N),
        annotators=Ids([f"a{m}" for m in range(M)]),
        classes=Ids.range(K),
    )


def of_unequal_ease(model: DawidSkene, N: int, per_item: int, spread: float, seed: int) -> tuple[cs.Annotations, Ints]:
    """A crowd for whom items differ in ease, as in :mod:`consilience.methods.hard_items`, and the truth."""
    rng = np.random.default_rng(seed)
    M, K, _ = model.confusions.shape
    truth = rng.choice(K, N, p=model.prior)
    who = np.argsort(rng.random((N, M)), axis=1)[:, :per_item]
    p = np.transpose(model.confusions, (0, 2, 1))[who, truth[:, None]]  # (N, labels, K)
    right = np.arange(K) == truth[:, None]
    p = p * np.exp(spread * rng.standard_normal((N, 1)) * right)[:, None, :]
    p /= p.sum(axis=2, keepdims=True)
    said = (rng.random((N, per_item, 1)) > np.cumsum(p, axis=2)).sum(axis=2)
    return labels_of(who, said, M, K), truth


def mixed(a: cs.Annotations) -> tuple[cs.Annotations, list[int]]:
    """The rows in another order, annotators with an x before their names, classes 0, 1, 2 named 2, 0, 1.

    Beside it the place of every item of ``a``: ``a`` has the posterior ``q[order][:, [2, 0, 1]]`` where this has q.
    """
    rows = a.to_frame("pandas").sample(frac=1, random_state=1)
    rows = rows.assign(label=rows["label"].map({0: 2, 1: 0, 2: 1}), annotator="x" + rows["annotator"])
    b = cs.Annotations.from_frame(rows)
    return b, [list(b.items).index(n) for n in a.items]


def twice(a: cs.Annotations) -> cs.Annotations:
    """Every label two times."""
    import pandas as pd

    frame = a.to_frame("pandas")
    return cs.Annotations.from_frame(pd.concat([frame, frame]), duplicates="keep")


def by_one_and_three_threads(monkeypatch: pytest.MonkeyPatch, a: cs.Annotations, fit: Callable[[], Any]) -> list[Any]:
    """What ``fit`` gives on labels that are enough for more than one block."""
    assert len(blocks.cut(a.indptr, 0)) > 1
    made = []
    for threads in (1, 3):
        monkeypatch.setattr(blocks, "thread_count", lambda threads=threads: threads)
        made.append(fit())
    return made


def assert_stops_when_told(method: Callable[..., Fit], a: cs.Annotations) -> None:
    """By its callback, by its passes, which it says, and by nothing else without a tolerance."""
    told: list[Progress] = []

    def tell(state: Progress) -> bool:
        told.append(state)
        return state.iteration >= 3

    stopped = method(a, callback=tell)
    assert [state.iteration for state in told] == [1, 2, 3]
    assert [state.objective for state in told] == stopped.history
    short = method(a, max_iter=2)
    assert not short.converged
    assert "did not converge in 2 iterations" in short.cautions[0][0]
    assert len(method(a, max_iter=7, tol=0).history) == 7


def correlated(seed: int, n_items: int = 2000, M: int = 15, K: int = 3) -> tuple[cs.Annotations, Ints]:
    """A crowd of the model: three subtypes a class, in each of which every annotator has a confusion of their own."""
    rng = np.random.default_rng(seed)
    V = np.stack([rng.dirichlet(1.0 + 2.0 * np.eye(K)[k], (M, 3)) for k in range(K)])
    truth, subtype = rng.integers(0, K, n_items), rng.choice(3, n_items, p=[0.5, 0.3, 0.2])
    passed = rng.random((n_items, M, 1)) > V[truth, :, subtype].cumsum(axis=-1)
    return cs.Annotations.from_matrix(passed.sum(axis=-1)), truth
