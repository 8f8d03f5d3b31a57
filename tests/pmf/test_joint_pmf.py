"""The estimator: the paper's Table I, questions with values and names, and tables that are not nice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from tests.estimators import failed_checks

from consilience.exceptions import ConvergenceWarning, DataError, DataWarning, ParameterError
from consilience.kernels._arrays import Codes
from consilience.pmf.cpd import CPD, split_factors
from consilience.pmf.em import fit_joint_pmf, run_cpd_em
from consilience.pmf.joint_pmf import JointPMF
from consilience.pmf.table import DiscreteTable


def table_one(S: int, seed: int) -> tuple[CPD, Codes]:
    """Table I's setting: N = F = 5, I = 10, half the entries there, H within 0.1 of separable for S1 = {1, 2, 3}."""
    N = F = 5
    rng = np.random.default_rng(seed)
    factors = [rng.dirichlet(np.ones(F), 10) for _ in range(N)]
    H = np.concatenate(factors[3:])
    for f, row in enumerate(rng.permutation(len(H))[:F]):
        corner = np.eye(F)[f]
        away = rng.dirichlet(np.ones(F)) - corner
        H[row] = corner + away * min(1.0, 0.1 / np.linalg.norm(away)) * rng.random()
    factors[3:] = np.split(H, N - 3)
    model = CPD(np.full(F, 1 / F), tuple(factor / factor.sum(axis=0) for factor in factors))
    codes = model.sample(S, rng)
    codes[rng.random(codes.shape) < 0.5] = -1
    return model, codes


def relative_error(model: CPD, truth: CPD) -> float:
    X = truth.marginal(range(5))
    return float(np.linalg.norm(model.marginal(range(5)) - X) / np.linalg.norm(X))


def drawn(S: int = 1500, seed: int = 0, missing: float = 0.2) -> tuple[CPD, Codes]:
    rng = np.random.default_rng(seed)
    model = CPD(rng.dirichlet(np.full(3, 5.0)), tuple(rng.dirichlet(np.full(s, 0.5), 3).T for s in (3, 4, 2, 5, 3)))
    codes = model.sample(S, rng).astype(np.int64)
    codes[rng.random(codes.shape) < missing] = -1
    return model, codes


def test_table_one_beside_the_paper_and_beside_em_from_the_truth() -> None:
    spa, em, oracle = [], [], []
    for seed in range(5):
        truth, codes = table_one(10_000, seed)
        spa.append(relative_error(JointPMF(5, refine=None, split="fixed").fit(codes).model_, truth))
        em.append(relative_error(JointPMF(5).fit(codes).model_, truth))
        best = run_cpd_em(codes, truth.sizes, truth.weights, truth.stacked, smoothing=1.0)
        oracle.append(relative_error(CPD(best.at.weights, split_factors(best.at.stacked, truth.sizes)), truth))
    # printed: 0.3228 and 0.2077, means of 20 draws
    assert np.mean(spa) < 0.36
    assert np.mean(em) < 0.235
    assert np.mean(em) < 1.02 * np.mean(oracle)


@pytest.mark.parametrize(
    ("init", "split"),
    [
        ("cnmf-spa", "conditioning"),
        ("cnmf-spa", "random"),
        ("cnmf-spa", "fixed"),
        ("random", "fixed"),
        ("ctd", "fixed"),
    ],
)
def test_every_start_reaches_the_likelihood_of_the_truth(init: Any, split: Any) -> None:
    truth, codes = drawn()
    pmf = JointPMF(3, init=init, split=split).fit(codes)
    assert pmf.converged_
    assert pmf.n_iter_ == len(pmf.history_)
    assert np.diff(pmf.history_).min() > -1e-8
    assert pmf.score(codes) > truth.log_prob(codes).mean() - 0.002


def test_row_order_and_category_names_do_not_matter() -> None:
    _, codes = drawn()
    pmf = JointPMF(3).fit(codes)
    order = np.random.default_rng(1).permutation(len(codes))
    shuffled = JointPMF(3).fit(codes[order])
    assert np.allclose(shuffled.log_prob(codes), pmf.log_prob(codes), atol=1e-4)
    letters = np.array([None, *"edcba"], object)[codes + 1]  # sorted, they come in the opposite order
    renamed = JointPMF(3).fit(letters)
    assert np.allclose(renamed.log_prob(letters), pmf.log_prob(codes), atol=1e-4)


@pytest.mark.parametrize("options", [{"n_components": 3}, {"n_components": 3, "init": "random"}, {}])
def test_same_seed_same_bytes(options: dict[str, Any]) -> None:
    _, codes = drawn(400)
    one, other = (JointPMF(random_state=4, **options).fit(codes) for _ in range(2))
    assert one.model_.stacked.tobytes() == other.model_.stacked.tobytes()
    assert one.history_ == other.history_
    assert one.sample(20, 3).tolist() == other.sample(20, 3).tolist()


def test_rank_is_chosen_by_what_is_held_out() -> None:
    _, codes = drawn(4000, 2, 0.0)
    pmf = JointPMF().fit(codes)
    assert 2 <= pmf.weights_.size <= 6
    assert pmf.rank_scores_[pmf.weights_.size] == max(pmf.rank_scores_.values())
    assert 1 in pmf.rank_scores_
    # independent columns need one component
    rng = np.random.default_rng(0)
    independent = JointPMF(tol=1e-6).fit(rng.integers(0, 4, (3000, 5)))
    assert independent.weights_.size == 1
    assert len(independent.rank_scores_) >= 2


def test_several_starts_are_averaged() -> None:
    _, codes = drawn(400)
    _, unseen = drawn(4000)
    pmf = JointPMF(4, init="random", n_starts=3, random_state=0).fit(codes)
    assert pmf.weights_.size == 12
    # the starts one by one: a stream of draws, each from where the one before ended
    rng = np.random.default_rng(0)
    logs = np.array([JointPMF(4, init="random", random_state=rng).fit(codes).log_prob(unseen) for _ in range(3)])
    # rows without an entry have log-probability zero, up to the last bit of the weights' sum
    np.testing.assert_allclose(pmf.log_prob(unseen), np.log(np.exp(logs).mean(axis=0)), rtol=1e-9, atol=1e-14)
    assert pmf.score(unseen) > logs.mean(axis=1).mean()
    assert np.diff(pmf.history_).min() > -1e-8
    with pytest.raises(ParameterError, match="n_starts"):
        JointPMF(2, n_starts=0).fit(codes)


def frame() -> pd.DataFrame:
    _, codes = drawn()
    names = ["colour", "grade", "sex", "stars", "shape"]
    columns: dict[str, Any] = {name: np.array([*"abcde", None], object)[codes[:, n]] for n, name in enumerate(names)}
    columns["stars"] = np.where(codes[:, 3] < 0, np.nan, codes[:, 3] + 1.0)
    return pd.DataFrame(columns)


def test_answers_in_values_and_names() -> None:
    data = frame()
    pmf = JointPMF(3).fit(data)
    given = pmf.conditional("stars", data.drop(columns="stars"))
    assert np.array_equal(given, pmf.conditional(3, data))
    assert np.allclose(given.sum(axis=1), 1.0)
    assert pmf.categories_[3].tolist() == [1, 2, 3, 4, 5]
    assert np.allclose(pmf.expectation("stars", data), given @ [1, 2, 3, 4, 5])
    assert np.array_equal(pmf.predict("stars", data), given.argmax(axis=1) + 1)
    assert set(pmf.predict("colour", data)) <= set("abc")
    assert np.allclose(pmf.marginal(["grade", "stars"]), pmf.model_.marginal((1, 3)))
    assert np.allclose(pmf.marginal("grade"), pmf.marginal(["grade", "stars"]).sum(axis=1))
    assert np.allclose(pmf.log_prob(data[data.columns[::-1]]), pmf.log_prob(data))
    with pytest.raises(ParameterError, match="not numbers"):
        pmf.expectation("colour", data)
    with pytest.raises(ParameterError, match="weight"):
        pmf.predict("weight", data)


def test_impute_fills_what_is_missing_and_nothing_else() -> None:
    data = frame()
    pmf = JointPMF(3).fit(data)
    full = pmf.impute(data)
    there = data.notna()
    assert isinstance(full, pd.DataFrame)
    assert not full.isna().any().any()
    assert (full.where(there) == data)[there].stack().all()
    for name in data.columns:
        gone = ~there[name].to_numpy()
        assert np.array_equal(full[name].to_numpy()[gone], pmf.predict(name, data)[gone])
    assert isinstance(pmf.impute(pl.from_pandas(data)), pl.DataFrame)
    _, codes = drawn()
    numbers = JointPMF(3).fit(codes)
    filled = numbers.impute(codes)
    assert filled.min() >= 0
    assert np.array_equal(filled[codes >= 0], codes[codes >= 0])
    assert isinstance(numbers.impute(DiscreteTable.from_data(codes)), DiscreteTable)


def test_imputation_beats_the_most_frequent_category() -> None:
    _, codes = drawn(3000, 5, 0.0)
    hidden = np.where(np.random.default_rng(0).random(codes.shape) < 0.2, -1, codes)
    filled = JointPMF(3).fit(hidden).impute(hidden)
    gone = hidden < 0
    most = np.array([np.bincount(column[column >= 0]).argmax() for column in hidden.T])
    assert (filled == codes)[gone].mean() > (most == codes)[gone].mean() + 0.05


def test_samples_look_like_the_data() -> None:
    data = frame()
    pmf = JointPMF(3).fit(data)
    rows = pmf.sample(20_000, 0)
    assert rows.shape == (20_000, 5)
    assert rows.dtype == object
    shares = pd.Series(rows[:, 0]).value_counts(normalize=True).sort_index()
    assert np.allclose(shares, data["colour"].value_counts(normalize=True).sort_index(), atol=0.02)


def test_constant_and_empty_columns() -> None:
    _, codes = drawn(400)
    odd = np.column_stack([codes, np.full(400, 7), np.full(400, -1)])
    with pytest.warns(DataWarning, match="x6"):
        pmf = JointPMF(3).fit(odd)
    assert np.allclose(pmf.factors_[5], 1.0)
    assert pmf.predict(5, odd[:2]).tolist() == [7, 7]
    assert np.allclose(pmf.log_prob(odd), JointPMF(3).fit(codes).log_prob(codes), atol=0.05)
    assert np.isnan(pmf.impute(odd[:3])[:, 6]).all()
    level = pd.Series(pd.Categorical([None] * 400, categories=["lo", "hi", "no", "yes"]))
    for smoothing in (0.0, 1.0):
        with pytest.warns(DataWarning, match="uniform: level"):
            declared = JointPMF(2, smoothing=smoothing, tol=1e-6).fit(
                pd.DataFrame({"a": codes[:, 0], "b": codes[:, 1], "level": level})
            )
        assert np.allclose(declared.factors_[2], 0.25)


def test_unseen_categories_are_missing() -> None:
    _, codes = drawn(400)
    pmf = JointPMF(3).fit(codes)
    row = codes[:1].copy()
    row[0, 1] = -1
    strange = row.copy()
    strange[0, 1] = 99
    with pytest.warns(DataWarning, match="x1"):
        found = pmf.conditional(0, strange)
    assert np.array_equal(found, pmf.conditional(0, row))


def test_tiny_tables() -> None:
    one = JointPMF().fit([[0, 1, 2]])
    assert np.isclose(one.score([[0, 1, 2]]), 0.0)
    assert JointPMF(2).fit([[0], [1], [1]]).marginal(0)[1] > 0.6
    rows_without_entries = JointPMF(2).fit([[0, 1], [1, 0], [-1, -1]])
    assert rows_without_entries.log_prob([[-1, -1]])[0] == pytest.approx(0.0)


def test_running_out_is_said() -> None:
    _, codes = drawn(400)
    with pytest.warns(ConvergenceWarning, match="3 passes"):
        pmf = JointPMF(3, max_iter=3).fit(codes)
    assert not pmf.converged_
    assert pmf.n_iter_ == 3


def test_bad_input() -> None:
    _, codes = drawn(50)
    wrong: list[dict[str, Any]] = [
        {"n_components": 0},
        {"n_components": 2.5},
        {"init": "best"},
        {"split": "half"},
        {"refine": "newton"},
        {"smoothing": -1.0},
        {"tol": -1.0},
        {"max_iter": 0},
        {"tol": "small"},
        {"smoothing": None},
        {"split": None},
        {"callback": 3},
        {"random_state": "seed"},
    ]
    for options in wrong:
        with pytest.raises(ParameterError, match=next(iter(options))):
            JointPMF(**options).fit(codes)
    with pytest.raises(DataError, match="no rows"):
        JointPMF(2).fit(codes[:0])
    pmf = JointPMF(2).fit(codes)
    with pytest.raises(DataError, match="4 columns"):
        pmf.log_prob(codes[:, :4])
    with pytest.raises(DataError, match="no rows"):
        pmf.score(codes[:0])
    for n in (-1, 2.5):
        with pytest.raises(ParameterError, match="n must be"):
            pmf.sample(n)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="name or its number"):
        pmf.marginal(1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sparse"):
        pmf.fit(csr_array(np.maximum(codes, 0)))
    for nothing in (None, "table", {"x0": [1]}):
        with pytest.raises(DataError, match="expected a table"):
            pmf.fit(nothing)


def test_scikit_learn_manners() -> None:
    pmf = clone(JointPMF(4, init="random", smoothing=0.5, random_state=3))
    assert pmf.get_params()["smoothing"] == 0.5
    assert pmf.set_params(n_components=2).n_components == 2
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        pmf.log_prob([[0]])


#: Checks that call predict as others do, with X alone.
ASKS_WITHOUT_TARGET = {
    "check_estimators_unfitted",
    "check_n_features_in_after_fitting",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_dict_unchanged",
    "check_fit_idempotent",
    "check_fit2d_predict1d",
}


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks_but_for_those_of_predict_without_a_target() -> None:
    assert set(failed_checks(JointPMF(2, max_iter=10), 25)) <= ASKS_WITHOUT_TARGET


def test_the_first_side_of_the_cut_may_be_named() -> None:
    data = frame()
    start: dict[str, Any] = {"n_components": 3, "refine": None}
    named = JointPMF(split=["sex", "colour"], **start).fit(data)
    assert np.array_equal(named.model_.stacked, JointPMF(split=(0, 2), **start).fit(data).model_.stacked)
    assert not np.allclose(named.model_.stacked, JointPMF(split="fixed", **start).fit(data).model_.stacked)
    assert np.array_equal(
        JointPMF(split=range(3), **start).fit(data).model_.stacked,
        JointPMF(split="fixed", **start).fit(data).model_.stacked,
    )
    assert JointPMF(split=["sex"]).fit(data).n_iter_ > 0
    for wrong in (["weight"], [5], range(5), []):
        with pytest.raises(ParameterError, match=r"weight|numbered|S1"):
            JointPMF(3, split=wrong).fit(data)


def test_every_question_where_no_tensor_fits() -> None:
    """10^40 cells: answers are those of the hidden component alone, which every column tells."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 300)
    rows = 5 * kind[:, None] + rng.integers(0, 5, (300, 40))
    rows[rng.random(rows.shape) < 0.5] = -1
    pmf = JointPMF(2, smoothing=0.0).fit(rows)
    asked = np.full((2, 40), -1)
    asked[0, 3], asked[1, 7] = 0, 9
    given = pmf.conditional(20, asked)
    assert given.shape == (2, 10)
    np.testing.assert_allclose([given[0, :5].sum(), given[1, 5:].sum()], 1.0, atol=1e-6)
    expected = pmf.expectation(20, asked)
    assert expected[0] < 4.5 < expected[1]
    assert (pmf.predict(20, asked) >= 5).tolist() == [False, True]
    assert ((pmf.impute(asked) >= 5).mean(axis=1) == [0.0, 1.0]).all()
    np.testing.assert_allclose(pmf.log_prob(asked), np.log([pmf.marginal(3)[0], pmf.marginal(7)[9]]))
    np.testing.assert_allclose(pmf.marginal([0, 39])[:5, 5:], 0.0, atol=1e-6)
    drawn = pmf.sample(50, 0) >= 5
    assert (drawn == drawn[:, :1]).all()


def test_names_of_a_frame_are_kept() -> None:
    pmf = JointPMF(2, tol=1e-3).fit(frame())
    assert pmf.feature_names_in_.tolist() == ["colour", "grade", "sex", "stars", "shape"]
    assert pmf.n_features_in_ == 5
    assert not hasattr(pmf.fit(drawn(100)[1]), "feature_names_in_")


def test_a_start_that_runs_out_is_said() -> None:
    _, codes = drawn(400)
    with pytest.warns(ConvergenceWarning, match="the start of EM, CTD, did not meet tol=1e-12 within 5 sweeps"):
        fit_joint_pmf(codes, (3, 4, 2, 5, 3), 3, init="ctd", max_iter=5, tol=1e-12)
    assert len(fit_joint_pmf(codes, (3, 4, 2, 5, 3), 3, init="ctd", refine=None, max_iter=90, tol=0).history) == 90
