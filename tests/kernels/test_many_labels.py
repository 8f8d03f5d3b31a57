"""More than 2^31 labels: every loop over items finds labels behind the largest 32-bit place.

The labels are at the end of a sparse file of more than 2^31 entries, and ``indptr`` begins there: nothing else is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.engine.part import Part
from consilience.kernels.agreement import agreement_sums
from consilience.kernels.cooccurrence import count_pairs
from consilience.kernels.em import Sweep
from consilience.kernels.votes import vote_counts, vote_shares, vote_statistics
from consilience.moments.label_pairs import item_pairs

_FAR = (1 << 31) + 12_345
M, K = 40, 3


class Labels(NamedTuple):
    """The same labels at the beginning of their arrays and far behind."""

    near: Annotations
    far: Annotations


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labels]:
    near = cs.simulate(500, M, K, labels_per_item=6, seed=3).annotations
    folder = tmp_path_factory.mktemp("far")
    far = near._with(
        indptr=near.indptr + _FAR, annotator=_far(folder / "a", near.annotator), label=_far(folder / "l", near.label)
    )
    yield Labels(near, far)
    for name in "al":
        (folder / name).unlink()


def _far(path: Path, values: Any) -> Any:
    made = np.memmap(path, values.dtype, "w+", shape=_FAR + values.size)
    made[_FAR:] = values
    return made


def _parameters() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), (M, K)).transpose(0, 2, 1).copy()


def _parts(a: Annotations) -> tuple[Any, Any, Any]:
    return a.indptr, a.annotator, a.label


_LOOPS: dict[str, Callable[[Annotations], Any]] = {
    "EM pass": lambda a: Sweep(*_parts(a), None, M, K)(*_parameters()),
    "posterior": lambda a: Sweep(*_parts(a), None, M, K).posterior(*_parameters()),
    "votes": lambda a: (vote_counts(a.indptr, a.label, K), vote_shares(a.indptr, a.label, None, K)),
    "votes of annotators": lambda a: next(iter(Part.of_annotations(a).votes().values())),
    "expected counts": lambda a: vote_statistics(*_parts(a), np.full((a.n_items, K), 1 / K), M),
    "pairs in a table": lambda a: count_pairs(*_parts(a), M, K),
    "sorted pairs": lambda a: count_pairs(*_parts(a), 5000, K),
    "agreement": lambda a: agreement_sums(
        a.indptr, a.label, np.arange(a.n_items, dtype=np.int32) % 7, 7, np.arange(K, dtype=float), True
    ),
    "sampled pairs": lambda a: item_pairs(a, 1000),
    "all pairs": lambda a: item_pairs(a, 10**6),
}


@pytest.mark.parametrize("name", _LOOPS)
def test_labels_behind_the_largest_32_bit_place_are_found(labels: Labels, name: str) -> None:
    assert labels.far.indptr[0] > np.iinfo(np.int32).max
    near, far = (_LOOPS[name](a) for a in labels)
    _assert_equal(near, far)


def _assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            _assert_equal(a, b)
    else:
        np.testing.assert_array_equal(one, other)
