"""The CPD model against the explicit tensor."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from consilience.exceptions import FormatError, ParameterError
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.cpd import TablePass
from consilience.pmf.cpd import CPD, mixture

SIZES = (2, 3, 4, 2)


def random_cpd(sizes: tuple[int, ...], F: int, seed: int, concentration: float = 1.0) -> CPD:
    rng = np.random.default_rng(seed)
    factors = tuple(rng.dirichlet(np.full(size, concentration), F).T for size in sizes)
    return CPD(rng.dirichlet(np.full(F, 3.0)), factors)


def tensor(model: CPD) -> Floats:
    """The joint distribution, cell by cell from its definition."""
    X = np.zeros(model.sizes)
    for cell in product(*map(range, model.sizes)):
        for f in range(model.rank):
            X[cell] += model.weights[f] * np.prod([A[i, f] for A, i in zip(model.factors, cell, strict=True)])
    return X


def all_rows(sizes: tuple[int, ...]) -> Codes:
    """Every row there can be, missing entries included."""
    return np.array(list(product(*[range(-1, size) for size in sizes])), np.int8)


def summed(X: Floats, row: Codes) -> Floats:
    """The tensor at the entries of a row; axes of missing entries stay."""
    return X[tuple(slice(None) if code < 0 else slice(code, code + 1) for code in row)]


@pytest.fixture(scope="module")
def model() -> CPD:
    return random_cpd(SIZES, 3, 0)


@pytest.mark.parametrize("F", [1, 2, 3, 5, 13, 18])
def test_log_prob_against_the_tensor(F: int) -> None:
    model = random_cpd(SIZES, F, F)
    X, rows = tensor(model), all_rows(SIZES)
    expected = np.log([summed(X, row).sum() for row in rows])
    assert np.allclose(model.log_prob(rows), expected, atol=1e-12)


def test_conditional_and_expectation_against_the_tensor(model: CPD) -> None:
    X, rows = tensor(model), all_rows(SIZES)
    for target in range(4):
        values = np.linspace(-1.0, 2.0, SIZES[target])
        hidden = rows.copy()
        hidden[:, target] = -1
        others = tuple(axis for axis in range(4) if axis != target)
        expected = np.array([summed(X, row).sum(axis=others) for row in hidden])
        expected /= expected.sum(axis=1, keepdims=True)
        assert np.allclose(model.conditional(target, rows), expected, atol=1e-12)
        assert np.allclose(model.expectation(target, rows, values), expected @ values, atol=1e-12)


def test_marginals_against_the_tensor(model: CPD) -> None:
    X = tensor(model)
    assert np.allclose(model.marginal((0, 1, 2, 3)), X)
    assert np.allclose(model.marginal(2), X.sum(axis=(0, 1, 3)))
    assert np.allclose(model.marginal((3, 1)), X.sum(axis=(0, 2)).T)
    assert np.isclose(float(model.marginal(()).sum()), 1.0)


def test_a_mixture_is_the_mean_of_the_tensors(model: CPD) -> None:
    other = random_cpd(SIZES, 2, 9)
    assert np.allclose(tensor(mixture([model, other])), 0.5 * (tensor(model) + tensor(other)))
    assert np.allclose(tensor(mixture([model, other], [0.2, 0.8])), 0.2 * tensor(model) + 0.8 * tensor(other))


def test_marginal_refuses_a_tensor_that_no_memory_holds() -> None:
    big = random_cpd((10,) * 30, 2, 0)
    assert big.marginal((3, 17)).shape == (10, 10)
    with pytest.raises(ParameterError, match="fewer"):
        big.marginal(range(30))


def test_long_rows_do_not_underflow() -> None:
    model = random_cpd((9,) * 400, 20, 1, 0.3)
    codes = model.sample(300, 0)
    with np.errstate(divide="ignore"):
        joint = np.log(model.weights) + sum(np.log(A)[codes[:, n]] for n, A in enumerate(model.factors))
    expected = np.logaddexp.reduce(joint, axis=1)
    assert expected.max() < -400
    assert np.allclose(model.log_prob(codes), expected, rtol=1e-12)
    small = model.permute(np.arange(20))
    assert np.allclose(small.posterior(codes[:2]), np.exp(joint[:2] - expected[:2, None]), atol=1e-9)
    assert np.allclose(small.posterior(codes), np.exp(joint - expected[:, None]), atol=1e-9)


def test_zeros_are_impossible_and_still_answered() -> None:
    model = CPD(np.array([0.5, 0.5]), (np.eye(2), np.eye(2), np.array([[0.9, 0.2], [0.1, 0.8]])))
    logs = model.log_prob(np.array([[0, 0, -1], [0, 1, -1], [1, -1, 1]]))
    assert np.allclose(logs[[0, 2]], np.log([0.5, 0.4]))
    assert logs[1] == -np.inf
    answer = model.conditional(2, np.array([[0, 1, -1]]))
    assert np.allclose(answer.sum(), 1.0)
    assert np.allclose(answer, [[0.55, 0.45]])


def test_sample_follows_the_model(model: CPD) -> None:
    S = 200_000
    rows = model.sample(S, 5)
    X = tensor(model)
    seen = np.zeros(SIZES)
    np.add.at(seen, tuple(rows.T), 1.0)
    # chi-square with 47 degrees of freedom: 99.99 % of the time below 93
    assert float(((seen - S * X) ** 2 / (S * X)).sum()) < 93
    assert np.array_equal(rows, model.sample(S, 5))
    assert not np.array_equal(rows, model.sample(S, 6))


def test_align_undoes_a_permutation(model: CPD) -> None:
    shuffled = model.permute([2, 0, 1])
    assert np.array_equal(shuffled.align(model).stacked, model.stacked)
    assert np.array_equal(shuffled.align(model).weights, model.weights)
    with pytest.raises(ParameterError, match="ranks"):
        model.align(random_cpd(SIZES, 2, 0))


def test_files(model: CPD, tmp_path: Path) -> None:
    model.save(tmp_path / "model.npz")
    back = CPD.load(tmp_path / "model.npz")
    assert back.sizes == model.sizes
    assert np.array_equal(back.stacked, model.stacked)
    assert np.array_equal(back.weights, model.weights)
    np.savez(tmp_path / "other.npz", weights=np.ones(1))
    with pytest.raises(FormatError):
        CPD.load(tmp_path / "other.npz")


def test_bad_input(model: CPD) -> None:
    with pytest.raises(ParameterError, match="sum one"):
        CPD(np.array([0.5, 0.6]), (np.eye(2),))
    with pytest.raises(ParameterError, match="weights"):
        CPD(np.array([1.0]), (np.eye(2),))
    for codes in (np.zeros((2, 3), int), np.full((1, 4), 2), np.full((1, 4), -2), np.zeros((1, 4))):
        with pytest.raises(ParameterError):
            model.log_prob(codes)
    with pytest.raises(ParameterError, match="numbered"):
        model.conditional(4, np.zeros((1, 4), int))
    with pytest.raises(ParameterError, match="once"):
        model.marginal((1, 1))
    with pytest.raises(ParameterError, match="values"):
        model.expectation(0, np.zeros((1, 4), int), [1, 2, 3])


def test_narrow_codes_of_many_categories() -> None:
    model = random_cpd((128, 300), 4, 0)
    codes = np.random.default_rng(0).integers(-1, 128, (20_000, 2)).astype(np.int16)
    assert codes[:, 0].max() == 127
    wide = model.posterior(codes)
    assert np.array_equal(model.posterior(codes.astype(np.int8)), wide)
    assert np.array_equal(model.log_prob(codes.astype(np.int8)), model.log_prob(codes))


def test_rows_in_chunks_share_the_merged_factors(model: CPD, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = model.sample(30_000, 0)
    whole = model.log_prob(codes), model.posterior(codes), model.conditional(1, codes)
    monkeypatch.setattr("consilience.pmf.cpd._CHUNK", 7_001)
    made, merged = [], TablePass._merged

    def counted(self: TablePass, stacked: Floats) -> Floats:
        made.append(1)
        return merged(self, stacked)

    monkeypatch.setattr(TablePass, "_merged", counted)
    parts = model.log_prob(codes), model.posterior(codes), model.conditional(1, codes)
    assert len(made) == 3
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)


def test_few_rows_of_many_variables_are_answered_as_among_many() -> None:
    model = random_cpd((5,) * 90, 40, 2)
    codes = model.sample(400, 0)
    np.testing.assert_allclose(model.posterior(codes[:3]), model.posterior(codes)[:3], atol=1e-12)
