"""ψ and log Γ of the compiled loops against scipy, and against identities that need no other library."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln, psi

from consilience.fitting.variational import Dirichlet
from consilience.kernels._arrays import Floats
from consilience.kernels.special import learn_pseudo_counts, psi_and_log_gamma

#: From what a pseudo-count may be at least to more labels than there are; with both roots nearby, 1.46 and 1 to 2.
POINTS: Floats = np.concatenate([np.geomspace(1e-3, 1e15, 2001), np.linspace(0.01, 20.0, 2001)])


def error(found: Floats, wanted: Floats) -> float:
    """Relative to the value, or to one where the value is smaller: both functions have roots."""
    return float((np.abs(found - wanted) / np.maximum(np.abs(wanted), 1.0)).max())


def test_psi_is_that_of_scipy() -> None:
    assert error(psi_and_log_gamma(POINTS)[0], psi(POINTS)) < 1e-14


def test_log_gamma_is_that_of_scipy() -> None:
    found = np.array([psi_and_log_gamma(np.array([x]))[1] for x in POINTS])
    assert error(found, gammaln(POINTS)) < 2e-14


def test_factorials_and_harmonic_numbers() -> None:
    n = np.arange(1, 100)
    of_n, _ = psi_and_log_gamma(n.astype(float))
    # ψ(n + 1) - ψ(n) = 1 / n,   Γ(n) = (n - 1)!
    np.testing.assert_allclose(np.diff(of_n), 1.0 / n[:-1], rtol=1e-12)
    assert psi_and_log_gamma(np.array([21.0]))[1] == pytest.approx(np.log(2432902008176640000), rel=1e-15)


@pytest.mark.parametrize("shape", [(1, 1), (16, 3), (17, 2, 2), (1000, 4, 4), (3, 70)])
@pytest.mark.parametrize("most", [1.0, 1e3, 1e12])
def test_sums_over_rows_of_any_number_and_size(shape: tuple[int, ...], most: float) -> None:
    rng = np.random.default_rng(0)
    values, shift = most * rng.random(shape) ** 4, 0.1 + rng.random(shape[1:])
    each, total = psi_and_log_gamma(values + shift)
    assert each.shape == shape
    assert error(each, psi(values + shift)) < 1e-14
    assert total == pytest.approx(float(gammaln(values + shift).sum()), rel=1e-13, abs=1e-11)


@pytest.mark.parametrize(
    ("pseudo", "axis", "shape"),
    [
        (np.array([4.0, 1.0]), -1, (300, 2)),
        (np.ones(5), -1, (5,)),
        (0.1 + 3.0 * np.eye(4), -2, (200, 4, 4)),
        (np.repeat(0.5 + np.eye(3), 2, axis=1), -2, (50, 3, 6)),
    ],
)
def test_dirichlets_agree_with_the_formulas(pseudo: Floats, axis: int, shape: tuple[int, ...]) -> None:
    """E log p = ψ(a) - ψ(Σ a), and the divergence of Dirichlet(a) from Dirichlet(prior), by scipy."""
    counts = np.random.default_rng(1).gamma(0.3, 50.0, shape)
    prior = np.broadcast_to(pseudo, shape)
    a = prior + counts
    of_a, of_prior = (gammaln(x.sum(axis=axis)).sum() - gammaln(x).sum() for x in (a, prior))
    expected = psi(a) - psi(a.sum(axis=axis, keepdims=True))
    found, divergence = Dirichlet(pseudo, axis=axis).expected_log(counts)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    assert divergence == pytest.approx(float(of_a - of_prior + (counts * expected).sum()), rel=1e-11)


LIMITS = {"rate": 1.0, "least": 1e-3, "most": 1e6}


@pytest.mark.parametrize("most", [1.0, 1e3, 1e12])
@pytest.mark.parametrize(("shape", "axis"), [((1, 3), -1), ((17, 4), -1), ((1000, 4, 4), -2), ((33, 3, 5), -2)])
def test_a_step_towards_the_pseudo_counts_is_minkas(shape: tuple[int, ...], axis: int, most: float) -> None:
    rng = np.random.default_rng(0)
    counts, beta = most * rng.random(shape) ** 4, 0.1 + rng.random(shape[1:])
    of_cells = (psi(counts + beta) - psi(beta)).sum(axis=0)
    total, together = counts.sum(axis=axis, keepdims=True), beta.sum(axis=axis, keepdims=True)
    of_totals = (psi(total + together) - psi(together)).sum(axis=0)
    expected = np.clip(beta * of_cells / (of_totals + 1.0), 1e-3, 1e6)
    before = beta.copy()
    found = learn_pseudo_counts(counts, beta, axis, steps=1, **LIMITS)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    np.testing.assert_array_equal(beta, before)
    twice = learn_pseudo_counts(counts, found, axis, steps=1, **LIMITS)
    np.testing.assert_allclose(learn_pseudo_counts(counts, beta, axis, steps=2, **LIMITS), twice, rtol=1e-13)


def test_pseudo_counts_that_made_the_counts_are_found() -> None:
    rng = np.random.default_rng(2)
    true = np.array([6.0, 2.0, 0.5])
    counts = np.array([rng.multinomial(200, p) for p in rng.dirichlet(true, 5000)], float)
    found = learn_pseudo_counts(counts, np.ones(3), -1, steps=300, **LIMITS)
    np.testing.assert_allclose(found, true, rtol=0.05)


def test_without_draws_pseudo_counts_fall_to_the_least() -> None:
    np.testing.assert_array_equal(learn_pseudo_counts(np.empty((0, 3)), np.ones(3), -1, steps=2, **LIMITS), 1e-3)
