"""Crowds whose options differ from item to item."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.kernels._arrays import Floats, Ints


class OpenCrowd(NamedTuple):
    """Simulated answers; items have answers of their own, or share their names."""

    annotations: Annotations
    truth: Ints  #: class code, -1 where nobody gave the right answer, (N,)
    ability: Floats

    @property
    def accuracy(self) -> Floats:
        """Share of right labels of each annotator."""
        a = self.annotations
        right = a.label == self.truth[a.item_of_label()]
        return np.bincount(a.annotator, right, a.n_annotators) / a.labels_per_annotator

    def error(self, best: Ints) -> float:
        """Share of wrong labels."""
        return float(np.mean(best != self.truth))


def open_crowd(
    n_items: int,
    n_annotators: int,
    labels_per_item: int,
    *,
    concentration: float = 3.0,
    spread: float = 0.7,
    mean: float = 0.5,
    shared_names: bool = False,
    seed: int = 0,
) -> OpenCrowd:
    """Draw a crowd from the model: abilities are normal around the mean, wrong answers come from an urn."""
    rng = np.random.default_rng(seed)
    N, M, L = n_items, n_annotators, labels_per_item
    u = rng.normal(mean, 1.0, M)
    who = np.argsort(rng.random((N, M)), axis=1)[:, :L]
    right = rng.random((N, L)) < 1.0 / (1.0 + np.exp(-u[who] - spread * rng.normal(size=(N, 1))))
    said, kinds = np.zeros((N, L), np.int64), np.zeros(N, np.int64)  # 0 is right, the others are wrong
    for j in range(L):
        wrong = ~right[:, :j]
        w = wrong.sum(axis=1)
        new = rng.random(N) < concentration / (concentration + w)
        # one of the earlier wrong labels, all equally likely
        at = np.where(wrong, rng.random((N, j)), -1.0).argmax(axis=1) if j else np.zeros(N, np.int64)
        copied = np.take_along_axis(said, at[:, None], 1)[:, 0]
        said[:, j] = np.where(right[:, j], 0, np.where(new | (w == 0), kinds + 1, copied))
        kinds = np.maximum(kinds, said[:, j])
    most = int(said.max()) + 1
    # an answer has another code in every item
    codes = np.argsort(rng.random((N, most)), axis=1)
    code = np.take_along_axis(codes, said, 1)
    offset = np.zeros(N, np.int64) if shared_names else most * np.arange(N)
    truth_name = codes[:, 0] + offset
    names, label = np.unique((code + offset[:, None]).ravel(), return_inverse=True)
    place = np.searchsorted(names, truth_name)
    given = (place < names.size) & (names[np.minimum(place, names.size - 1)] == truth_name)
    annotations = Annotations(
        np.arange(N + 1) * L,
        who.ravel(),
        label.ravel(),
        items=Ids.range(N),
        annotators=Ids([f"m{m}" for m in range(M)]),
        classes=Ids([f"a{name:06}" for name in names]),
        origin=Origin(frame="pandas"),
    )
    return OpenCrowd(annotations, np.where(given, place, -1), u)
