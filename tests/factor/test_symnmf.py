"""Symmetric NMF: known factors come back, the objective falls, and independent ways give the same numbers."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.decomposition import NMF
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from consilience.exceptions import ConvergenceWarning, ParameterError
from consilience.factor.estimators import SymNMF
from consilience.factor.square_root import square_root
from consilience.factor.symnmf import Rotation, rotate, symnmf
from consilience.kernels._arrays import Floats


def sparse_factor(J: int, K: int, density: float, seed: int) -> Floats:
    """The factors of Ibrahim & Fu 2022, Fig. 2: entries are uniform with probability ``density``, else zero."""
    rng = np.random.default_rng(seed)
    return rng.random((J, K)) * (rng.random((J, K)) < density)


def separable_factor(seed: int) -> Floats:
    """Every class has rows that meet no other."""
    rng = np.random.default_rng(seed)
    pure = np.tile(np.eye(4), (10, 1)) * rng.uniform(0.5, 2.0, (40, 1))
    return np.concatenate([pure, rng.random((40, 4))])


def scattered_factor(seed: int) -> Floats:
    """No row is pure, but rows in the proportions 1 : 0.2 : 0 span more than the cone of Definition 1.

    For K = 3 the cone touches every face in its middle; rows (1, s, 0) and the like enclose it for s < 1/2.
    """
    rng = np.random.default_rng(seed)
    faces = [np.roll(row, k) for row in ([1.0, 0.2, 0.0], [0.2, 1.0, 0.0]) for k in range(3)]
    return np.concatenate([np.tile(faces, (8, 1)) * rng.uniform(0.5, 2.0, (48, 1)), rng.uniform(0.2, 1.0, (20, 3))])


def noisy(X: Floats, snr: float, seed: int) -> Floats:
    noise = np.random.default_rng(seed).standard_normal(X.shape) * np.sqrt((X**2).mean() / 10 ** (snr / 10))
    whole: Floats = X + (noise + noise.T) / np.sqrt(2)
    return whole


def matched(H: Floats, found: Floats) -> Floats:
    """The columns of ``found`` in the order that is nearest to ``H``."""
    cost = ((H[:, :, None] - found[:, None, :]) ** 2).sum(axis=0)
    return found[:, linear_sum_assignment(cost)[1]]


def relative_mse(H: Floats, found: Floats) -> float:
    return float(((H - matched(H, found)) ** 2).sum() / (H**2).sum())


def haar(K: int, n: int, seed: int) -> list[Floats]:
    """Random orthogonal matrices by another way than the library's: the polar factor of a Gaussian matrix."""
    W, _, Vt = np.linalg.svd(np.random.default_rng(seed).standard_normal((n, K, K)))
    return list(W @ Vt)


def huang(U: Floats, Q: Floats, iterations: int) -> tuple[Floats, list[float]]:
    """Huang, Sidiropoulos & Swami 2014, word for word."""
    H = np.maximum(U @ Q, 0)
    history = [float(np.linalg.norm(H - U @ Q) ** 2)]
    while len(history) < iterations:
        W, _, Vt = np.linalg.svd(H.T @ U)
        Q = Vt.T @ W.T
        H = np.maximum(U @ Q, 0)
        history.append(float(np.linalg.norm(H - U @ Q) ** 2))
    return H, history


# ---- known factors come back ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"alpha": 0.0}, {"decay": 0.8}], ids=str)
@pytest.mark.parametrize(
    "H",
    [separable_factor(0), scattered_factor(0), *(sparse_factor(1000, 3, density, 0) for density in (0.3, 0.5, 0.7))],
    ids=["separable", "scattered", "30 %", "50 %", "70 %"],
)
def test_noiseless_factors_come_back(H: Floats, options: dict[str, Any]) -> None:
    found = symnmf(H @ H.T, H.shape[1], **options)
    assert relative_mse(H, found.H) < 1e-12
    assert found.converged
    assert found.objective < 1e-20 * (H**2).sum()


@pytest.mark.parametrize("K", [2, 5, 10])
def test_more_classes_come_back(K: int) -> None:
    H = sparse_factor(400, K, 0.5, K)
    assert relative_mse(H, symnmf(H @ H.T, K).H) < 1e-12


def test_dense_factors_are_fitted_but_not_found() -> None:
    """Without zeros there are many exact factors, all far from each other: the data cannot tell which is meant."""
    H = 1.0 + np.random.default_rng(0).random((50, 3))
    U = square_root(H @ H.T, 3)
    found = [rotate(U @ Q, starts=1) for Q in haar(3, 10, 0)]
    exact = [f.H for f in found if f.objective < 1e-10 * (H**2).sum()]
    assert len(exact) > 2
    np.testing.assert_allclose([h @ h.T for h in exact], [H @ H.T] * len(exact), rtol=1e-4)
    assert max(relative_mse(H, h) for h in exact) > 0.01


def test_errors_fall_with_the_noise() -> None:
    H = sparse_factor(500, 3, 0.5, 1)
    errors = [relative_mse(H, symnmf(noisy(H @ H.T, snr, 2), 3).H) for snr in (10, 30, 50)]
    assert errors[0] < 1e-3
    assert errors[1] < 0.02 * errors[0]  # twenty decibels are a factor of a hundred
    assert errors[2] < 0.02 * errors[1]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_component_is_the_leading_eigenvector(sign: float) -> None:
    h = np.random.default_rng(0).random((30, 1)) + 0.1
    np.testing.assert_allclose(symnmf(h @ h.T, 1).H, h)
    np.testing.assert_allclose(rotate(sign * h, starts=1).H, h)


# ---- the algorithm is the one of the paper ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_without_threshold_it_is_huangs_algorithm(seed: int) -> None:
    U = square_root(noisy((H := sparse_factor(200, 4, 0.6, seed)) @ H.T, 20, seed), 4)
    theirs, history = huang(U, np.eye(4), 60)
    ours = rotate(U, alpha=0, starts=1, tol=0, max_iter=60)
    np.testing.assert_allclose(ours.H, theirs, atol=1e-9)
    np.testing.assert_allclose(ours.history, history, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_without_threshold_the_objective_never_rises(seed: int) -> None:
    U = np.random.default_rng(seed).standard_normal((60, 4))
    found = rotate(U, alpha=0, starts=1, tol=0, max_iter=200)
    assert found.n_iter == 200
    steps = np.diff(found.history)
    assert steps.max() <= 1e-12 * found.history[0]
    assert steps.min() < -0.01 * found.history[0]


def test_the_threshold_is_hard() -> None:
    """What is kept is kept as it is; what is below α is zero, not α (eq. (13a) read as in its definition)."""
    U = square_root(noisy((H := sparse_factor(200, 3, 0.5, 0)) @ H.T, 20, 0), 3)
    found = rotate(U, alpha=0.2, starts=1, max_iter=7, tol=0)
    Q, threshold = np.eye(3), 0.2 * np.abs(U).max()
    for _ in range(6):
        W, _, Vt = np.linalg.svd(np.where(threshold <= U @ Q, U @ Q, 0).T @ U)
        Q = Vt.T @ W.T
    np.testing.assert_allclose(found.Q, Q, atol=1e-9)
    kept = found.H > 0
    np.testing.assert_allclose(found.H[kept], (U @ Q)[kept], atol=1e-9)
    assert found.H[kept].min() >= threshold
    assert ((U @ Q > 0) & ~kept).mean() > 0.1


def test_what_comes_back_fits_together() -> None:
    U = np.random.default_rng(0).standard_normal((80, 3))
    found = rotate(U, alpha=0)
    np.testing.assert_allclose(found.Q.T @ found.Q, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(found.H, np.maximum(U @ found.Q, 0), atol=1e-12)
    assert found.objective == pytest.approx(np.linalg.norm(found.H - U @ found.Q) ** 2)
    assert found.objective == found.history[-1]
    assert found.n_iter == len(found.history)


# ---- a falling threshold (Fig. 2 and 3) -------------------------------------------------------------------


def iterations_to(found: Rotation, goal: float) -> int:
    return next(i for i, value in enumerate(found.history, 1) if value <= goal)


@pytest.mark.parametrize(("density", "decay"), [(0.3, 0.7), (0.5, 0.8), (0.7, 0.9)])
def test_a_falling_threshold_is_faster_without_noise(density: float, decay: float) -> None:
    """The claim of Fig. 2, for the ψ just above the rate of α = 0: at most three quarters of the iterations."""
    plain, falling = [], []
    for seed in range(11):
        U = square_root((H := sparse_factor(500, 3, density, seed)) @ H.T, 3)
        goal = 1e-20 * float((U**2).sum())
        plain.append(iterations_to(rotate(U, alpha=0, starts=1, tol=0), goal))
        falling.append(iterations_to(rotate(U, decay=decay, starts=1, tol=0), goal))
    assert np.median(falling) <= 0.75 * np.median(plain)


def test_a_falling_threshold_ends_where_none_does_in_noise() -> None:
    U = square_root(noisy((H := sparse_factor(400, 3, 0.5, 3)) @ H.T, 20, 3), 3)
    plain = rotate(U, alpha=0, tol=1e-12).H
    for decay in (0.5, 0.8, 0.9):
        np.testing.assert_allclose(matched(plain, rotate(U, decay=decay, tol=1e-12).H), plain, atol=1e-5)


def test_nothing_has_converged_while_the_threshold_falls() -> None:
    U = square_root((H := sparse_factor(300, 3, 0.3, 0)) @ H.T, 3)
    found = rotate(U, decay=0.9)
    assert found.converged
    assert 0.9**found.n_iter < 1e-8
    assert not rotate(U, decay=0.9, max_iter=100).converged


# ---- symmetries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("J", [120, 700])
def test_rows_may_come_in_any_order(J: int) -> None:
    X = noisy((H := sparse_factor(J, 3, 0.5, 0)) @ H.T, 20, 0)
    order = np.random.default_rng(1).permutation(J)
    here, there = symnmf(X, 3, tol=1e-12).H, symnmf(X[np.ix_(order, order)], 3, tol=1e-12).H
    np.testing.assert_allclose(matched(here[order], there), here[order], atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"decay": 0.7}, {"alpha": 0.05}], ids=str)
@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e4])
def test_units_do_not_matter(factor: float, options: dict[str, Any]) -> None:
    X = noisy((H := sparse_factor(120, 3, 0.5, 0)) @ H.T, 20, 0)
    here, there = symnmf(X, 3, **options), symnmf(factor**2 * X, 3, **options)
    np.testing.assert_allclose(there.H, factor * here.H, atol=1e-6 * factor)
    assert there.objective == pytest.approx(factor**2 * here.objective, rel=1e-6)


# ---- many starts at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 5, 6, 7, 8, 9, 11, 12, 16])
def test_a_batch_finds_what_its_starts_find_one_by_one(seed: int) -> None:
    """On matrices without a nonnegative factor, whose objectives have several local minima."""
    U = np.random.default_rng(seed).standard_normal((10, 4))
    rotations = haar(4, 9, seed)
    options: dict[str, Any] = {"alpha": 0.0, "starts": 1, "max_iter": 5000, "tol": 1e-13}
    alone = sorted((rotate(U @ Q, **options) for Q in [np.eye(4), *rotations]), key=lambda found: found.objective)
    assert alone[-1].objective > 1.001 * alone[0].objective
    batch = rotate(U, rotations=rotations, **options)
    assert batch.objective == pytest.approx(alone[0].objective, rel=1e-9)
    np.testing.assert_allclose(matched(alone[0].H, batch.H), alone[0].H, atol=1e-5)


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    U = square_root(noisy((H := sparse_factor(300, 3, 0.5, 0)) @ H.T, 20, 0), 3)
    whole = rotate(U)
    monkeypatch.setattr("consilience.factor.symnmf._PRODUCT", 1)
    np.testing.assert_allclose(rotate(U).H, whole.H, atol=1e-9)


def test_a_good_rotation_can_be_given() -> None:
    H = sparse_factor(100, 4, 0.5, 0)
    (Q,) = haar(4, 1, 0)
    found = rotate(H @ Q.T, starts=1, rotations=[Q])
    assert found.n_iter == 1
    np.testing.assert_allclose(found.H, H, atol=1e-12)


def test_the_same_seed_gives_the_same_bytes() -> None:
    X = noisy((H := sparse_factor(600, 3, 0.5, 0)) @ H.T, 10, 0)
    runs = [symnmf(X, 3, random_state=5) for _ in range(3)]
    assert len({run.H.tobytes() for run in runs}) == 1
    assert runs[0].history == runs[1].history
    U = np.random.default_rng(0).standard_normal((25, 4))
    assert rotate(U, random_state=1).H.tobytes() != rotate(U, random_state=2).H.tobytes()
    generators = (np.random.default_rng(1), np.random.default_rng(1))
    assert len({rotate(U, random_state=generator).H.tobytes() for generator in generators}) == 1


# ---- the end ----------------------------------------------------------------------------------------------


def test_running_out_is_not_convergence() -> None:
    U = square_root(noisy((H := sparse_factor(200, 3, 0.7, 0)) @ H.T, 20, 0), 3)
    assert not rotate(U, max_iter=3).converged
    assert rotate(U, max_iter=3).n_iter == 3
    found = rotate(U)
    assert found.converged
    assert abs(found.history[-1] - found.history[-2]) < 1e-8 * found.history[-2]
    assert abs(found.history[-2] - found.history[-3]) >= 1e-8 * found.history[-3]


def test_entries_that_cross_the_threshold_for_ever_end_too() -> None:
    """With many rows, some true entries lie at α and go in and out at every step."""
    H = sparse_factor(50_000, 3, 0.5, 0)
    found = rotate(H @ haar(3, 1, 0)[0], alpha=1e-4)
    assert found.converged
    assert found.n_iter < 300
    assert relative_mse(H, found.H) < 1e-9


@pytest.mark.parametrize("U", [np.zeros((4, 2)), np.zeros((1, 3)), np.eye(3), np.ones((5, 2))], ids=str)
def test_degenerate_square_roots(U: Floats) -> None:
    found = rotate(U)
    assert found.converged
    np.testing.assert_allclose(found.H @ found.H.T, U @ U.T, atol=1e-6)
    assert found.H.min() >= 0


# ---- the square root --------------------------------------------------------------------------------------


@pytest.mark.parametrize("J", [50, 199, 200, 900])
def test_the_square_root_is_the_best_of_its_rank(J: int) -> None:
    """Both ways to the eigenvectors leave what is left of the spectrum, and order and signs are fixed."""
    X = noisy((H := sparse_factor(J, 3, 0.5, J)) @ H.T, 10, J)
    U = square_root(X, 3)
    spectrum = np.linalg.eigvalsh(X)
    assert np.linalg.norm(X - U @ U.T) == pytest.approx(np.linalg.norm(spectrum[:-3]), rel=1e-9)
    np.testing.assert_allclose((U**2).sum(axis=0), spectrum[:-4:-1], rtol=1e-9)
    assert U.sum(axis=0).min() >= 0
    assert square_root(X, 3).tobytes() == U.tobytes()


@pytest.mark.parametrize("J", [20, 600])
def test_negative_eigenvalues_count_as_zero(J: int) -> None:
    signs = np.where(np.arange(J) == 3, 2.0, -1.0)
    U = square_root(np.diag(signs), 2)
    np.testing.assert_allclose(U @ U.T, np.diag(np.maximum(signs, 0)), atol=1e-12)
    np.testing.assert_array_equal(square_root(np.zeros((J, J)), 2), 0)


# ---- against another library ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_scikit_learns_nmf_fits_no_better(seed: int) -> None:
    """Its two factors need not be equal, which makes the fit easier; ours is as good on an exact matrix."""
    X = (H := sparse_factor(40, 3, 0.6, seed)) @ H.T
    peer = NMF(3, init="nndsvda", max_iter=5000, tol=1e-10).fit(X)
    ours = SymNMF(3).fit(X)
    assert ours.reconstruction_err_ <= peer.reconstruction_err_ + 1e-9
    assert ours.reconstruction_err_ < 1e-9 * np.linalg.norm(X)


@pytest.mark.parametrize("seed", range(4))
def test_in_noise_it_is_nearly_as_good_as_two_factors(seed: int) -> None:
    X = np.maximum(noisy((H := sparse_factor(40, 3, 0.6, seed)) @ H.T, 20, seed), 0)
    peer = NMF(3, init="nndsvda", max_iter=5000, tol=1e-10).fit(X)
    assert SymNMF(3).fit(X).reconstruction_err_ <= 1.05 * peer.reconstruction_err_


# ---- what cannot be used ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (np.ones(4), r"square matrix, not shape \(4,\)"),
        (np.ones((4, 3)), r"pass X @ X.T"),
        (np.ones((0, 0)), "square matrix"),
        (np.full((3, 3), np.nan), "impute"),
        (np.array([[1.0, 2.0], [3.0, 1.0]]), r"entry \(1, 0\) is 3 and entry \(0, 1\) is 2; .* \(X \+ X.T\) / 2"),
    ],
    ids=["one axis", "oblong", "empty", "nan", "asymmetric"],
)
def test_matrices_that_cannot_be_used(X: Floats, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        symnmf(X, 2)


@pytest.mark.parametrize(
    "bad",
    [
        {"alpha": -1e-9},
        {"alpha": 1.0},
        {"alpha": "small"},
        {"decay": 0.0},
        {"decay": 1.0},
        {"starts": 0},
        {"starts": 2.5},
        {"max_iter": 0},
        {"tol": -1.0},
        {"tol": float("nan")},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"{next(iter(bad))} must be"):
        rotate(np.eye(3), **bad)


def test_square_roots_and_rotations_that_cannot_be_used() -> None:
    with pytest.raises(ParameterError, match=r"two axes, .* not shape \(3,\)"):
        rotate(np.ones(3))
    with pytest.raises(ParameterError, match="NaN or infinite"):
        rotate(np.array([[1.0, np.inf]]))
    with pytest.raises(ParameterError, match=r"rotation 1 must be an orthogonal matrix of shape \(2, 2\)"):
        rotate(np.ones((4, 2)), rotations=[np.eye(2), np.ones((2, 2))])
    with pytest.raises(ParameterError, match="n_components must be a whole number ≥ 1, not 0"):
        symnmf(np.eye(3), 0)
    with pytest.raises(ParameterError, match="3 rows has square roots of 1 to 3 columns, not 4"):
        symnmf(np.eye(3), 4)


def test_rounding_is_not_asymmetry() -> None:
    X = (H := sparse_factor(50, 2, 0.5, 0)) @ H.T
    X[3, 4] *= 1 + 1e-12
    assert relative_mse(H, symnmf(X, 2).H) < 1e-12


# ---- the estimator ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [SymNMF(2), SymNMF(2, decay=0.5), SymNMF(n_init=1, max_iter=5)], ids=str)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator: SymNMF) -> None:
    """No check is expected to fail."""
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 40


def test_class_and_function_are_the_same() -> None:
    """Every parameter of the function but the given rotations is one of the class, with its default, and passed on."""
    names = {"n_init": "starts"}
    ours = {names.get(k, k): v for k, v in SymNMF().get_params().items() if k != "n_components"}
    parameters = inspect.signature(rotate).parameters.values()
    theirs = {p.name: p.default for p in parameters if p.kind == p.KEYWORD_ONLY and p.name != "rotations"}
    assert ours == theirs
    X = noisy((H := sparse_factor(100, 3, 0.7, 0)) @ H.T, 10, 0)
    for changed in ({"alpha": 0.1}, {"decay": 0.6}, {"n_init": 2}, {"max_iter": 9, "tol": 0.0}, {"random_state": 4}):
        fitted = clone(SymNMF(3)).set_params(**changed).fit(X)
        direct = symnmf(X, 3, **{names.get(k, k): v for k, v in changed.items()})
        np.testing.assert_array_equal(fitted.H_, direct.H)
        assert fitted.history_ == direct.history
        assert (fitted.converged_, fitted.n_iter_) == (direct.converged, direct.n_iter)
        np.testing.assert_array_equal(fitted.rotation_, direct.Q)


def test_fitted_attributes() -> None:
    X = noisy((H := sparse_factor(60, 3, 0.5, 0)) @ H.T, 20, 0)
    model = SymNMF(3)
    found = model.fit_transform(X)
    np.testing.assert_array_equal(found, model.H_)
    np.testing.assert_array_equal(model.components_, model.H_.T)
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(X - found @ found.T))
    assert model.n_features_in_ == 60
    assert list(model.get_feature_names_out()) == ["symnmf0", "symnmf1", "symnmf2"]
    assert SymNMF(n_init=1).fit(np.eye(5)).H_.shape == (5, 5)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.1}, {"decay": 0.9, "max_iter": 20, "tol": 0.0}], ids=str)
def test_the_fitted_rows_are_transformed_into_themselves(options: dict[str, Any]) -> None:
    X = noisy((H := sparse_factor(60, 3, 0.5, 0)) @ H.T, 20, 0)
    model = SymNMF(3, **options).fit(X)
    np.testing.assert_allclose(model.transform(X), model.H_, atol=1e-10)


def test_new_rows_find_their_place() -> None:
    """Known by their similarities to the fitted rows alone."""
    H = sparse_factor(300, 3, 0.5, 0)
    old, new = H[:200], H[200:]
    model = SymNMF(3).fit(old @ old.T)
    order = linear_sum_assignment(-(old.T @ model.H_))[1]
    np.testing.assert_allclose(model.transform(new @ old.T)[:, order], new, atol=1e-5)


def test_the_estimator_says_what_is_wrong() -> None:
    X = noisy((H := sparse_factor(60, 3, 0.7, 0)) @ H.T, 20, 0)
    with pytest.warns(ConvergenceWarning, match="did not converge in 4 iterations") as caught:
        model = SymNMF(3, max_iter=4).fit(X)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert not SymNMF(3, max_iter=4, tol=0).fit(X).converged_  # all were asked for: no warning
    with pytest.raises(NotFittedError):
        SymNMF(3).transform(X)
    for bad in ({"n_components": 0}, {"n_components": 1.5}, {"n_init": 0}, {"alpha": 2.0}, {"decay": 1.0}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            SymNMF(**bad).fit(X)
    with pytest.raises(ParameterError, match="symmetric"):
        SymNMF(2).fit(np.triu(X))
