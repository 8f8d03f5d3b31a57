"""The batch methods behind one class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.estimators import failed_checks
from tests.subspace.test_clustering import accuracy

import consilience as cs
from consilience.datasets.subspaces import simulate_subspaces
from consilience.exceptions import DataError
from consilience.subspace import batch
from consilience.subspace.ssc import ssc


@pytest.mark.parametrize("options", [{"representation": "ssc"}, {"representation": "lsr"}, {"representation": "lrr"}])
def test_known_subspaces(options: Any) -> None:
    drawn = simulate_subspaces(240, 30, 3, 4, noise=0.1, random_state=1)
    model = cs.SubspaceClustering(3, **options).fit(drawn.data[:180])
    assert accuracy(np.append(model.labels_, model.predict(drawn.data[180:])), drawn.truth) > 0.98
    assert model.dimensions_.tolist() == [4, 4, 4]
    assert model.codes_.shape == (180, 180)


def test_parameters_reach_the_solver() -> None:
    drawn = simulate_subspaces(60, 15, 2, 2, noise=0.1, offset=1.0)
    model = cs.SubspaceClustering(2, lam=30.0, affine=True, tol=1e-6).fit(drawn.data)
    np.testing.assert_array_equal(model.codes_, ssc(drawn.data, None, 30.0, affine=True, tol=1e-6))
    assert model.lam_ == 30.0
    assert np.abs(model.centroids_).max() > 0.1


def test_too_many_samples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_MOST", 50)
    with pytest.raises(DataError, match="SketchedSubspaceClustering"):
        cs.SubspaceClustering(2).fit(np.zeros((51, 3)))


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks() -> None:
    assert failed_checks(cs.SubspaceClustering(3, representation="lsr"), 36) == {}
