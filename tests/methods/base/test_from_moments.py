"""Models from co-occurrences alone: exact blocks give back the model, and names and missing blocks are respected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.conftest import random_model

import consilience as cs
from consilience.exceptions import MethodError, ParameterError
from consilience.methods.base.from_moments import Pairwise
from consilience.metrics import mean_relative_error, mean_squared_error
from consilience.moments import CoOccurrences
from consilience.pmf.cpd import CPD

NAMES = ["ann", "bob", "cleo", "dan", "eve"]
PAIRS = [(m, j) for m in range(5) for j in range(m + 1, 5)]


@pytest.fixture(scope="module")
def crowd() -> Any:
    """A crowd with two perfect annotators, so that every annotator shares items with one: pairs determine the model."""
    rng = np.random.default_rng(5)
    confusions = 0.5 * np.eye(3) + 0.5 * rng.dirichlet(np.ones(3), (5, 3)).transpose(0, 2, 1)
    confusions[2] = confusions[4] = np.eye(3)
    prior = np.array([0.3, 0.3, 0.4])
    model = random_model(5, 3, seed=0)
    return type(model)(prior, confusions, model.classes, model.annotators)


def blocks_of(model: Any, pairs: Any = PAIRS) -> dict[tuple[str, str], Any]:
    A, D = model.confusions, np.diag(model.prior)
    return {(NAMES[m], NAMES[j]): A[m] @ D @ A[j].T for m, j in pairs}


@pytest.mark.parametrize("method", ["rob-symnmf", "des-symnmf", "multispa", "cnmf"])
def test_exact_blocks_give_back_the_model(crowd: Any, method: Pairwise) -> None:
    found = cs.from_moments(blocks_of(crowd), method)
    assert list(found.annotators) == NAMES
    np.testing.assert_allclose(found.prior, crowd.prior, atol=2e-3)
    np.testing.assert_allclose(found.confusions, crowd.confusions, atol=2e-3)


def test_missing_blocks_are_imputed(crowd: Any) -> None:
    seen = [pair for pair in PAIRS if pair not in ((0, 1), (3, 4))]
    for method in ("rob-symnmf", "des-symnmf"):
        found = cs.from_moments(blocks_of(crowd, seen), method)
        np.testing.assert_allclose(found.confusions, crowd.confusions, atol=2e-3)
    through = cs.from_moments(blocks_of(crowd, seen), "des-symnmf", through=["cleo", "dan", "ann", "bob"])
    np.testing.assert_allclose(through.confusions, crowd.confusions, atol=2e-3)


def test_a_pair_may_be_named_either_way_round(crowd: Any) -> None:
    blocks = blocks_of(crowd)
    turned = {(second, first): block.T for (first, second), block in blocks.items()}
    assert CoOccurrences.from_blocks(turned) == CoOccurrences.from_blocks(blocks)


def test_counts_of_labels_give_what_labels_give() -> None:
    crowd = cs.simulate(3000, 10, 3, experts=0.4, seed=2)
    pairs = cs.moments.pair_moments(crowd.annotations)
    found = cs.from_moments(pairs, "cnmf")
    fitted = cs.CoupledNMF(shrinkage=0.0, tol=1e-9).fit(crowd.annotations)
    np.testing.assert_allclose(found.confusions, fitted.confusions_, atol=0.01)
    assert mean_squared_error(cs.from_moments(pairs), crowd.model) < 0.005


def test_what_cannot_be_determined_is_refused(crowd: Any) -> None:
    with pytest.raises(MethodError, match="2 groups"):
        cs.from_moments(blocks_of(crowd, [(0, 1), (2, 3), (3, 4), (2, 4)]))
    with pytest.raises(ParameterError, match="square matrices of one size"):
        cs.from_moments({("a", "b"): np.ones((2, 3))})
    with pytest.raises(ParameterError, match="'zoe', who is not among"):
        CoOccurrences.from_blocks({("ann", "zoe"): np.eye(2)}, annotators=["ann", "bob"])
    with pytest.raises(ParameterError, match="method must be one of"):
        cs.from_moments(blocks_of(crowd), "ds-em")  # type: ignore[arg-type]


def test_joint_distributions_from_pair_marginals() -> None:
    rng = np.random.default_rng(1)
    sizes = (4, 3, 5, 4)
    factors = [rng.dirichlet(np.ones(size), 3).T for size in sizes]
    factors[3] = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 0.5], [0, 0, 0.5]])
    truth = CPD(np.array([0.2, 0.5, 0.3]), tuple(factors))
    blocks = {(j, k): factors[j] @ np.diag(truth.weights) @ factors[k].T for j in range(4) for k in range(4) if j < k}
    for weights in ("simplex", "pseudo-inverse"):
        found = cs.JointPMF(3, split=2, weights=weights).from_moments(blocks)
        assert mean_relative_error(found.model_, truth) < 1e-6
    table = np.einsum("f,af,bf,cf,df->abcd", truth.weights, *factors)
    assert found.marginal([0, 1, 2, 3]) == pytest.approx(table, abs=1e-8)
    for bad, words in (
        ({(0, 1): np.ones((2, 2)), (1, 2): np.ones((3, 2))}, "as in the other"),
        ({(0, 2): np.eye(2)}, "all variables"),
    ):
        with pytest.raises(ParameterError, match=words):
            cs.JointPMF(2).from_moments(bad)
    with pytest.raises(ParameterError, match="needs n_components"):
        cs.JointPMF().from_moments(blocks)


def test_relative_error_is_that_of_the_tables() -> None:
    rng = np.random.default_rng(2)

    def draw() -> CPD:
        return CPD(rng.dirichlet(np.ones(2)), tuple(rng.dirichlet(np.ones(size), 2).T for size in (3, 2, 4)))

    model, truth = draw(), draw()
    one, other = (np.einsum("f,af,bf,cf->abc", each.weights, *each.factors) for each in (model, truth))
    distance = np.linalg.norm(one - other)
    assert mean_relative_error(model, truth) == pytest.approx(distance / np.linalg.norm(other))
    assert mean_relative_error(model, truth, over="estimate") == pytest.approx(distance / np.linalg.norm(one))


def test_squared_error_does_not_depend_on_the_order_of_classes(crowd: Any) -> None:
    assert mean_squared_error(crowd.permute(np.array([2, 0, 1])), crowd) == pytest.approx(0.0, abs=1e-15)
    shifted = type(crowd)(crowd.prior, 0.9 * crowd.confusions + 0.1 / 3, crowd.classes, crowd.annotators)
    expected = ((shifted.confusions - crowd.confusions) ** 2).sum() / (5 * 3 + 1)
    assert mean_squared_error(shifted, crowd) == pytest.approx(expected)
    with pytest.raises(ParameterError, match="same annotators"):
        mean_squared_error(random_model(4, 3, seed=0), crowd)
