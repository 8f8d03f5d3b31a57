"""The registry: every method is found, checked and run by its name, and holds what all methods promise."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import random_model
from tests.methods import test_invariance

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning, MethodError, ParameterError
from consilience.fitting.multi import fit_multi
from consilience.methods.base import registry
from consilience.methods.base.method import THREE_ANNOTATORS, TWO_CLASSES
from consilience.validation import CONSTRAINTS, check_parameters, keywords

#: Parameters that any value may be given for, or whose own function judges them.
FREE = {"init", "order", "random_state", "silent_label", "start", "through", "weights"}


def needing(need: object) -> set[str]:
    return {name for name, method in registry.METHODS.items() if need in method.needs}


# ---- names and parameters -------------------------------------------------------------------------------


def test_methods_are_imported_when_they_run() -> None:
    """The registry knows the modules by the names of their files; only the method that was asked for is loaded."""
    script = (
        f"import sys; sys.path.insert(0, {str(Path(cs.__file__).parents[1])!r})\n"
        "from consilience.methods.base import registry\n"
        "registry.resolve('kos')\n"
        "print([m for m in ('scipy', 'numba', 'sklearn') if m in sys.modules])\n"
        "print([n for n in registry.METHODS if 'consilience.methods.' + n.replace('-', '_') in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["[]", "['kos']"]


@pytest.mark.parametrize("name", registry.METHODS)
def test_a_method_is_a_function_of_annotations_and_keywords(name: str) -> None:
    method = registry.METHODS[name]
    module = import_module(method.function.__module__)
    assert method.name == name
    assert {"METHOD", method.function.__name__, method.estimator} <= set(module.__all__)
    assert getattr(module, method.estimator) is getattr(cs, method.estimator)
    first, *others = inspect.signature(method.function).parameters.values()
    assert first.name == "annotations"
    assert all(p.kind == p.KEYWORD_ONLY and p.default is not p.empty for p in others)
    assert method.parameters == tuple(p.name for p in others)
    assert method.summary
    assert not method.summary.endswith(".")


def test_every_parameter_is_constrained_or_free() -> None:
    taken = {p for method in registry.METHODS.values() for p in method.parameters}
    taken |= {p for suffix in registry.REFINEMENTS for p in registry.refinement_parameters(suffix)}
    assert taken - set(CONSTRAINTS) <= FREE
    taken |= set(keywords(fit_multi))  # sets of options have no method in the registry
    assert set(CONSTRAINTS) <= taken, "a constraint of no parameter"
    assert not FREE & set(CONSTRAINTS)


@pytest.mark.parametrize("name", registry.METHODS)
def test_defaults_meet_the_constraints(name: str) -> None:
    parameters = inspect.signature(registry.METHODS[name].function).parameters.values()
    check_parameters({p.name: p.default for p in parameters if p.default is not p.empty})


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("value", ["nonsense", -1, float("nan"), float("inf"), -float("inf"), [0.5]], ids=repr)
def test_nonsense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"^{name} must be "):
        check_parameters({name: value})


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("max_iter", [0, 5, 7.0], [2.5, True]),
        ("tol", [0, 0.5], [1, True]),
        ("smoothing", [0, 2.5], [True]),
        ("concentration", [0.1, 3], [0, False]),
        ("penalty", [0.05], [0]),
        ("starts", [1, np.int64(3)], [0, 1.0, True]),
        ("groups", [None, 1, 4], [0, 2.0]),
        ("rule", ["map", "ml"], ["MAP"]),
        ("imbalance", ["likelihood", "tensor"], [None]),
        ("coin", [True, False], [1, None]),
        ("decay", [None, 0.9], [0, 1]),
        ("callback", [None, print], [True]),
    ],
)
def test_where_the_bounds_are(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        check_parameters({name: value})
    for value in bad:
        with pytest.raises(ParameterError, match=name):
            check_parameters({name: value})


def test_unknown_names_are_said_with_a_hint() -> None:
    with pytest.raises(ParameterError, match=r"no method 'eigen-ratio'; did you mean 'eigenratio'\?"):
        registry.resolve("eigen-ratio")
    a, _ = random_model(5, 2, seed=0).sample(20, random_state=0)
    with pytest.raises(ParameterError, match=r"ghosh-svd has no parameter 'tol'; it takes callback, normalize$"):
        registry.fit("ghosh-svd", a, tol=0.1)


def test_em_takes_what_the_method_does_not() -> None:
    a, _ = random_model(6, 2, seed=0).sample(200, random_state=0)
    plain = registry.fit("te+em", a, center=False)
    smoothed = registry.fit("te+em", a, center=False, shrinkage=3.0, max_iter=500)
    assert plain.model != smoothed.model


# ---- what every method promises -------------------------------------------------------------------------


def crowd(rows: list[tuple[Any, Any, Any]], **options: Any) -> Annotations:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    table = pa.table({name: list(values) for name, values in zip(("task", "worker", "label"), columns, strict=True)})
    return Annotations.from_frame(table, **options)


_RNG = np.random.default_rng(0)
_VOTES = [(n, m, int(_RNG.integers(2))) for n in range(12) for m in range(5)]
_APART = [(n + 100 * g, f"{g}{m}", int(_RNG.integers(2))) for g in range(2) for n in range(6) for m in range(3)]
_MATRIX = _RNG.integers(0, 2, (10, 4)).astype(float)
_MATRIX[3], _MATRIX[:, 2] = np.nan, np.nan

ODD_CROWDS: dict[str, Callable[[], Annotations]] = {
    "one class": lambda: crowd([(n, m, "x") for n, m, _ in _VOTES]),
    "one annotator": lambda: crowd([(n, 0, k) for n, m, k in _VOTES if m == 0]),
    "two annotators": lambda: crowd([row for row in _VOTES if row[1] < 2]),
    "one item": lambda: crowd([row for row in _VOTES if row[0] == 0]),
    "one label each": lambda: crowd([(n, n, k) for n, m, k in _VOTES if m == 0]),
    "a single label": lambda: crowd([(0, 0, 0)]),
    "two crowds apart": lambda: crowd(_APART),
    "nobody and nothing": lambda: Annotations.from_matrix(_MATRIX, classes=[0.0, 1.0, 2.0]),
    "answers repeated": lambda: crowd([*_VOTES, *_VOTES[:20]], duplicates="keep"),
    "all agree": lambda: crowd([(n, m, n % 2) for n, m, _ in _VOTES]),
    "gold": lambda: crowd(_VOTES, gold={0: 1, 1: 0, 2: 1}),
}


@pytest.mark.parametrize("name", registry.METHODS)
@pytest.mark.parametrize("odd", ODD_CROWDS)
def test_any_data_gives_probabilities_or_a_refusal(name: str, odd: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        a = ODD_CROWDS[odd]()
    few = odd in ("one annotator", "two annotators", "a single label") and name in needing(THREE_ANNOTATORS)
    for full in (name, f"{name}+em"):
        if few:
            with pytest.raises(MethodError, match=r"needs at least three annotators, and .* have [12];"):
                registry.fit(full, a)
            continue
        fit = registry.fit(full, a)
        assert fit.posterior.shape == (a.n_items, a.n_classes)
        assert fit.posterior.min() >= 0
        np.testing.assert_allclose(fit.posterior.sum(axis=1), 1.0)
        assert np.isfinite(fit.log_likelihood)
        np.testing.assert_allclose(fit.model.confusions.sum(axis=1), 1.0)
        if a.gold is not None:
            known = a.gold >= 0
            np.testing.assert_array_equal(fit.choice.best[known], a.gold[known])


@pytest.mark.parametrize("name", sorted(needing(TWO_CLASSES)))
def test_more_than_two_classes_are_refused_by_those_that_need_two(name: str) -> None:
    a, _ = random_model(6, 3, seed=0).sample(50, random_state=0)
    sentence = f"^{name} needs two classes, and these annotations have 3; ds-em, rob-symnmf and auto take any$"
    with pytest.raises(MethodError, match=sentence):
        cs.aggregate(a, f"{name}+em")
    # a third class that nobody used does not count
    b, _ = random_model(6, 2, seed=0).sample(50, random_state=0)
    assert registry.fit(name, b.recode(b.annotator_ids, a.class_ids)).posterior.shape == (50, 3)


@pytest.fixture(scope="module")
def sparse() -> tuple[Annotations, Any]:
    a, truth = random_model(9, 2, seed=3, skill=0.7).sample(300, labels_per_item=5, random_state=0)
    return Annotations.from_frame(a.to_frame("pandas")), truth


@pytest.mark.parametrize("name", registry.METHODS)
def test_the_same_labels_give_the_same_bytes(sparse: tuple[Annotations, Any], name: str) -> None:
    a, truth = sparse
    before, after = (registry.fit(name, a).posterior for _ in range(2))
    assert after.tobytes() == before.tobytes()
    assert np.mean(before[np.argsort(a.items)].argmax(axis=1) == truth) > 0.7


@pytest.mark.parametrize("name", sorted({*registry.METHODS} - {*test_invariance.NAMES}))
def test_order_and_names_do_not_matter(sparse: tuple[Annotations, Any], name: str) -> None:
    """For methods that the stricter test of invariance does not take."""
    a, _ = sparse
    frame = a.to_frame("pandas")
    shuffled = frame.sample(frac=1.0, random_state=5)
    renamed = frame.assign(annotator=1000 - frame["annotator"])
    before, *after = (
        registry.fit(name, data).posterior[np.argsort(data.items)]
        for data in (a, Annotations.from_frame(shuffled), Annotations.from_frame(renamed))
    )
    for each in after:  # the last bit of a sum may decide when a fit ends
        np.testing.assert_allclose(each, before, atol=1e-3)


@pytest.mark.parametrize("name", registry.METHODS)
def test_good_annotators_are_believed(name: str) -> None:
    """With accurate annotators whom many items show, every method is nearly always right, and so is its EM."""
    a, truth = random_model(12, 2, seed=1, skill=0.8).sample(400, labels_per_item=9, random_state=1)
    for full in (name, f"{name}+em"):
        assert np.mean(registry.fit(full, a).choice.best == truth) > 0.93


@pytest.mark.parametrize("method", ["majority", "ds-em"])
def test_thousands_of_classes_are_refused_before_any_table_is_made(method: str) -> None:
    truth = np.arange(2500)
    votes = np.stack([truth, truth, np.roll(truth, 1)], axis=1)
    with pytest.raises(MethodError, match="one annotator has 6250000 cells, and there are 7500 labels in all"):
        cs.aggregate(votes, method)
    made = cs.aggregate(votes, answers="open")  # options that differ from item to item need no such table
    assert made.labels["label"].tolist() == truth.tolist()
