"""The estimators: scikit-learn's own checks, crowd-kit's manners, and nothing lost between class and function."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tests.conftest import random_model
from tests.estimators import failed_checks

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning, ConvergenceWarning, MethodError, ParameterError
from consilience.fitting.fit import Fit
from consilience.methods.base import registry
from consilience.methods.base.method import TWO_CLASSES
from consilience.methods.base.refinement import refine
from consilience.methods.majority import majority_vote

#: Parameters of functions that are for other methods, not for estimators.
INTERNAL = {"start"}

CLASSES = [getattr(cs, method.estimator) for method in registry.METHODS.values()]
REFINABLE = [each for each in CLASSES if "refine" in each().get_params()]
IN_NEED = [each for each in CLASSES if registry.METHODS[each._method].needs]
OF_TWO = [each for each in IN_NEED if TWO_CLASSES in registry.METHODS[each._method].needs]


#: Less work for the many small fits of scikit-learn's checks.
CHEAP: dict[str, dict[str, int]] = {
    "SpectralDawidSkene": {"partitions": 1, "rounds": 2},
    "TensorADMM": {"max_iter": 20},
}


def seeded(kind: Any) -> Any:
    return kind(random_state=0) if "random_state" in kind().get_params() else kind()


def is_refusal(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, MethodError) or is_refusal(error.__cause__ or error.__context__))


@pytest.mark.parametrize(
    "estimator",
    [*(seeded(each) for each in CLASSES if each not in IN_NEED), cs.RobustSymNMF(refine="em", random_state=0)],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator: Any) -> None:
    """No check is expected to fail."""
    failed = failed_checks(estimator, at_least=31)
    assert failed == {}


@pytest.mark.parametrize("kind", IN_NEED)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks_fail_by_refusal_alone(kind: Any) -> None:
    """The checks fit numbers of any kind, each a class of its own, from one or two annotators as well."""
    failed = failed_checks(seeded(kind).set_params(**CHEAP.get(kind.__name__, {})), at_least=21)
    assert failed
    assert {name: error for name, error in failed.items() if not is_refusal(error)} == {}


@pytest.mark.parametrize("kind", OF_TWO)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks_with_two_classes(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the checks' numbers are made two classes, small and large ones, no check fails."""
    of_matrix = Annotations.from_matrix

    def folded(matrix: Any, **names: Any) -> Annotations:
        numbers = np.asarray(matrix, float)
        return of_matrix(np.where(np.isnan(numbers), np.nan, numbers > 0.5), **names)

    monkeypatch.setattr(Annotations, "from_matrix", folded)
    failed = failed_checks(seeded(kind), at_least=31)
    assert failed == {}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    a, _ = random_model(8, 3, seed=0).sample(200, labels_per_item=4, random_state=0)
    long = a.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})
    long["task"] = "t" + long["task"].astype(str)
    long["label"] = long["label"].map({0: "cat", 1: "dog", 2: "fox"})
    return long.sample(frac=1.0, random_state=1)


def test_crowd_kit_frames_get_series_by_task(frame: pd.DataFrame) -> None:
    labels = cs.DawidSkeneEM().fit_predict(frame)
    assert isinstance(labels, pd.Series)
    assert labels.index.name == "task"
    assert labels.name == "agg_label"
    assert set(labels.index) == set(frame["task"])
    probabilities = cs.DawidSkeneEM().fit_predict_proba(frame)
    assert isinstance(probabilities, pd.DataFrame)
    assert list(probabilities.columns) == ["cat", "dog", "fox"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities.idxmax(axis=1) == labels).all()


def test_majority_is_a_count_of_votes(frame: pd.DataFrame) -> None:
    counts = frame.groupby(["task", "label"]).size().unstack(fill_value=0)
    shares = counts.div(counts.sum(axis=1), axis=0)
    ours = cs.MajorityVote().fit_predict_proba(frame).loc[shares.index, shares.columns]
    np.testing.assert_allclose(ours.to_numpy(), shares.to_numpy())
    labels = cs.MajorityVote().fit_predict(frame).loc[shares.index]
    chosen = shares.to_numpy()[np.arange(len(labels)), shares.columns.get_indexer(labels)]
    np.testing.assert_allclose(chosen, shares.max(axis=1))


def test_crowd_kit_agrees(frame: pd.DataFrame) -> None:
    """The peer itself, where it is installed (make bench installs it)."""
    peer = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    theirs = peer.DawidSkene(n_iter=20, tol=0).fit_predict_proba(frame)
    # their last E-step is our final posterior; they add 1e-10 under every logarithm
    ours = cs.DawidSkeneEM(tol=0, max_iter=19, accelerate=False).fit_predict_proba(frame)
    np.testing.assert_allclose(ours.loc[theirs.index, theirs.columns], theirs, atol=1e-6)


def test_prior_and_confusions_have_crowd_kits_names(frame: pd.DataFrame) -> None:
    fitted = cs.DawidSkeneEM().fit(frame)
    assert fitted.priors_["dog"] == fitted.prior_[1]
    worker = frame["worker"].iloc[0]
    m = list(fitted.model_.annotators).index(worker)
    assert fitted.errors_.loc[(worker, "cat"), "fox"] == fitted.confusions_[m, 0, 2]


@pytest.mark.parametrize("make", [pl.from_pandas, pa.Table.from_pandas])
def test_other_frames_get_their_own_kind(frame: pd.DataFrame, make: Any) -> None:
    theirs = make(frame.reset_index(drop=True))
    labels = cs.DawidSkeneEM().fit_predict(theirs)
    assert type(labels) is type(theirs)
    by_pandas = cs.DawidSkeneEM().fit_predict(frame)
    table = labels if isinstance(labels, pa.Table) else labels.to_arrow()
    assert table["task"].to_pylist() == list(by_pandas.index)
    assert table["label"].to_pylist() == list(by_pandas)


def test_fitted_annotators_judge_new_items() -> None:
    model = random_model(10, 3, seed=2, skill=0.8)
    old, _ = model.sample(3000, labels_per_item=5, random_state=0)
    new, truth = model.sample(500, labels_per_item=5, random_state=1)
    fitted = cs.DawidSkeneEM().fit(old)
    assert np.mean(fitted.predict(new) == truth) > 0.85
    np.testing.assert_allclose(fitted.predict_proba(new), fitted.model_.posterior(new))
    np.testing.assert_array_equal(fitted.predict(old), fitted.labels_)


def test_gold_and_its_crowd_kit_name(frame: pd.DataFrame) -> None:
    known = pd.Series({"t0": "fox", "t1": "cat"})
    for fitted in (cs.DawidSkeneEM().fit(frame, gold=known), cs.DawidSkeneEM().fit(frame, true_labels=known)):
        assert fitted.labels_[["t0", "t1"]].tolist() == ["fox", "cat"]
        assert fitted.probas_.loc["t0", "fox"] == 1.0


# ---- nothing is lost between class and function ---------------------------------------------------------

#: For every parameter a value that is nobody's default.
OTHER: dict[str, Any] = {
    "smoothing": 0.7,
    "shrinkage": 0.1,
    "diagonal": 2.5,
    "concentration": 0.3,
    "penalty": 0.2,
    "annotator_penalty": 0.4,
    "item_penalty": 0.6,
    "imbalance": "tensor",
    "rule": "ml",
    "max_iter": 5,
    "tol": 0.0,
    "starts": 3,
    "rotations": 7,
    "subtypes": 2,
    "partitions": 3,
    "rounds": 6,
    "groups": 2,
    "alpha": 0.01,
    "decay": 0.5,
    "through": [0, 1],
    "spread": 0.9,
    "options": 3,
    "evidence": 7.0,
    "silence": "random",
    "accuracy": 0.8,
    "silent_label": 0,
    "order": [1, 0],
    "places": 2,
    "shape": "quadratic",
    "weights": [1.0, 0.5, 1.0, 0.5],
    "xi": 0.5,
    "radius": 2.0,
    "floor": 0.01,
    "em_rounds": 3,
    "em_floor": 0.01,
    "random_state": 17,
    "callback": print,
}
#: Parameters of ``refine="plain-em"``.
PLAIN = {"em_rounds", "em_floor"}


def defaults_of(function: Any) -> dict[str, Any]:
    return {name: p.default for name, p in inspect.signature(function).parameters.items() if p.kind == p.KEYWORD_ONLY}


def others_of(kind: Any) -> dict[str, Any]:
    """Another value for every parameter: the opposite of a flag, the other prior, another start."""
    opposite = {True: False, False: True, "learned": "uniform", "uniform": "learned", "votes": "random", None: "votes"}
    given = {k: OTHER[k] if k in OTHER else opposite[v] for k, v in kind().get_params().items() if k != "refine"}
    assert all(value != kind().get_params()[name] for name, value in given.items())
    return given


@pytest.mark.parametrize("kind", CLASSES)
def test_class_and_function_have_the_same_parameters(kind: Any) -> None:
    theirs = {k: v for k, v in defaults_of(registry.METHODS[kind._method].function).items() if k not in INTERNAL}
    ours = kind().get_params()
    assert ours.pop("refine", None) is None
    assert ours.pop("random_state", None) is None
    theirs.pop("random_state", None)
    if kind in REFINABLE:
        assert ours.pop("callback") is theirs.pop("callback", None)
        assert (ours.pop("em_rounds"), ours.pop("em_floor")) == (None, 0.0)
    assert ours == theirs
    assert {k: type(v) for k, v in ours.items()} == {k: type(v) for k, v in theirs.items()}


class Recorder:
    """Stands for a function: keeps what it was given, and gives the vote."""

    def __init__(self, function: Any) -> None:
        self.__signature__ = inspect.signature(function)
        self.given: dict[str, Any] = {}

    def __call__(self, annotations: Annotations, *_fit: Any, **options: Any) -> Fit:
        self.given = options
        return majority_vote(annotations)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put recorders in the place of a method and of its refinement."""

    def recorded(kind: Any) -> tuple[Recorder, Recorder]:
        method = registry.METHODS[kind._method]
        first, second = Recorder(method.function), Recorder(refine)
        monkeypatch.setattr(registry, "REFINEMENTS", {**registry.REFINEMENTS, registry.REFINED: second})
        monkeypatch.setattr(registry, "METHODS", {**registry.METHODS, method.name: replace(method, function=first)})
        return first, second

    return recorded


VOTES = [[0, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 1]]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_parameter_is_passed_on(kind: Any, record: Any) -> None:
    function, em = record(kind)
    given = others_of(kind)
    kind(**given).fit(VOTES)
    taken = set(defaults_of(function))
    assert function.given == {k: v for k, v in given.items() if k in taken}
    assert set(given) - taken <= {"callback", "random_state", *PLAIN}
    assert em.given == {}
    clone(kind(**given)).fit(VOTES)
    assert function.given == {k: v for k, v in given.items() if k in taken}


@pytest.mark.parametrize("kind", REFINABLE)
def test_em_is_given_what_is_set_and_keeps_its_own_defaults(kind: Any, record: Any) -> None:
    function, em = record(kind)
    kind(refine="em").fit(VOTES)
    # as by name: only randomness is fresh where no seed was given
    assert {k: v for k, v in em.given.items() if k != "random_state"} == {}
    assert em.given.get("random_state") is None
    given = others_of(kind)
    kind(refine="em", **given).fit(VOTES)
    taken = set(defaults_of(function))
    assert function.given == {k: v for k, v in given.items() if k in taken}
    passed = {k: v for k, v in given.items() if k in taken or k == "callback"}
    assert em.given == {k: v for k, v in passed.items() if k in registry.refinement_parameters(registry.REFINED)}


@pytest.mark.parametrize("kind", CLASSES)
def test_class_and_name_give_the_same(kind: Any) -> None:
    a, _ = random_model(6, 2, seed=0).sample(100, random_state=0)
    for refined in (False, True) if kind in REFINABLE else (False,):
        fitted = seeded(kind).set_params(**({"refine": "em"} if refined else {})).fit(a)
        direct = registry.fit(kind._method + ("+em" if refined else ""), a)
        assert fitted.model_ == direct.model
        assert fitted.history_ == direct.history
        np.testing.assert_array_equal(fitted.probas_, direct.posterior)
        assert fitted.predict_proba(a).shape == direct.posterior.shape


@pytest.mark.parametrize("kind", CLASSES)
def test_scikit_learns_protocol(kind: Any) -> None:
    """Copies, pickles and pipelines keep the parameters; the repr shows those that differ from the defaults."""
    given = {k: v for k, v in others_of(kind).items() if k != "weights"}
    model = kind(**given)
    for other in (clone(model), pickle.loads(pickle.dumps(model)), kind().set_params(**given)):
        assert other.get_params() == model.get_params()
    assert repr(kind()) == f"{kind.__name__}()"
    assert all(f"{name}={value!r}" in repr(model) for name, value in given.items())
    with pytest.raises(ParameterError, match=f"{kind.__name__} has no parameter 'nonsense'"):
        model.set_params(nonsense=1)
    assert make_pipeline(model).set_params(**{f"{kind.__name__.lower()}__{k}": v for k, v in given.items()})
    assert list(inspect.signature(kind).parameters) == list(kind()._defaults())


def test_a_pipeline_fits_and_predicts() -> None:
    pipeline = make_pipeline(FunctionTransformer(), cs.DawidSkeneEM(smoothing=0.1))
    np.testing.assert_array_equal(pipeline.fit(VOTES).predict(VOTES), cs.DawidSkeneEM(smoothing=0.1).fit_predict(VOTES))


def test_estimators_and_aggregate_do_not_import_scikit_learn() -> None:
    """It takes a second to import, and labels in a frame do not need it."""
    script = (
        f"import sys; sys.path.insert(0, {str(Path(cs.__file__).parents[1])!r})\n"
        "import consilience as cs\n"
        "crowd = cs.simulate(50, 8, 2, seed=0).annotations\n"
        "cs.DawidSkeneEM().fit(crowd), cs.aggregate(crowd, 'ds-em').labels\n"
        "print([m for m in sys.modules if m.partition('.')[0] == 'sklearn'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def test_refinement_is_em_or_none() -> None:
    with pytest.raises(ParameterError, match="refine must be 'em', 'plain-em' or None, not 'EM'"):
        cs.KOS(refine="EM").fit(VOTES)  # type: ignore[arg-type]


def test_bad_parameters_and_use_before_fit() -> None:
    votes = [[0, 1, 1], [1, 0, 0]]
    for bad in ({"max_iter": -1}, {"tol": 2.0}, {"smoothing": -0.1}, {"prior": "flat"}, {"max_iter": 2.5}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            cs.DawidSkeneEM(**bad).fit(votes)
    with pytest.raises(NotFittedError):
        cs.DawidSkeneEM().predict(votes)


def test_running_out_of_passes_is_said(frame: pd.DataFrame) -> None:
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 passes"):
        fitted = cs.DawidSkeneEM(max_iter=2).fit(frame)
    assert not fitted.converged_
    assert fitted.n_iter_ == 2


def test_wide_frames_are_matrices() -> None:
    wide = pd.DataFrame({"ann": [0, 1, 0, np.nan], "bob": [0, 1, 1, 1], "cyd": [0, np.nan, 0, 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        fitted: Any = cs.MajorityVote().fit(wide)
    assert fitted.labels_.tolist() == [0, 1, 0, 1]
    assert fitted.feature_names_in_.tolist() == ["ann", "bob", "cyd"]


def test_every_method_has_its_class() -> None:
    for method in registry.METHODS.values():
        assert getattr(cs, method.estimator)._method == method.name
