"""What is settled before samples are coded."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.exceptions import DataError
from consilience.subspace.lsr import default_lam
from consilience.subspace.preparation import gram_of, reduced, sketch_size, some_rows, sparse_lams
from consilience.subspace.sketches import make_sketch


def test_some_rows_are_all_of_few_and_a_part_of_many() -> None:
    assert some_rows(50).tolist() == list(range(50))
    rows = some_rows(10_000)
    assert rows.size == np.unique(rows).size == 4096
    assert (np.diff(rows) > 0).all()


def test_lams_of_sparse_codes_do_not_hang_on_lengths() -> None:
    rng = np.random.default_rng(0)
    X, B = rng.standard_normal((100, 8)), rng.standard_normal((5, 8))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    lams = sparse_lams(X, B)
    assert lams[0] == pytest.approx(default_lam(X, B, 800.0))
    assert [lams[0] / lam for lam in lams] == pytest.approx([1, 10, 40])
    short = X.copy()
    short[3] *= 1e-8
    short = np.concatenate([short, np.zeros((2, 8)), np.full((1, 8), np.nan)])
    assert sparse_lams(short, B) == pytest.approx(lams)
    with pytest.raises(DataError, match="zero"):
        sparse_lams(np.zeros((3, 8)), B)


def test_sums_and_features() -> None:
    rng = np.random.default_rng(1)
    X, R = rng.standard_normal((40, 6)).astype(np.float32), make_sketch("gaussian", 6, 2, 0)
    assert reduced(X, None) is X
    assert reduced(X, R).dtype == np.float32
    np.testing.assert_allclose(reduced(X, R), X @ R.toarray(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gram_of(X[:15]) + gram_of(X[15:]), gram_of(X))
    X[0, 0] = np.nan
    np.testing.assert_allclose(gram_of(X), np.nan_to_num(X).astype(float).T @ np.nan_to_num(X).astype(float))
    with pytest.raises(DataError, match="mixed"):
        reduced(X, R)
    X[0, 0] = np.inf
    with pytest.raises(DataError, match="infinite"):
        reduced(X, None)


def test_the_dictionary_is_twice_the_rank() -> None:
    rng = np.random.default_rng(2)
    assert sketch_size(rng.standard_normal((200, 4)) @ rng.standard_normal((4, 50))) == 18
