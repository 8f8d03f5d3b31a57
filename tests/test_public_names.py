"""The public surface: what is there is promised, what is promised is there."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import consilience as cs

PUBLIC = [
    "METHODS",
    "Annotations",
    "Consensus",
    "DawidSkene",
    "DawidSkeneEM",
    "DesignatedSymNMF",
    "Diagnosis",
    "MajorityVote",
    "OneCoin",
    "PlainSymNMF",
    "RobustSymNMF",
    "SymNMF",
    "__version__",
    "aggregate",
    "datasets",
    "diagnose",
    "exceptions",
    "factor",
    "load",
    "moments",
    "read",
    "read_truth",
    "simulate",
]

EXCEPTIONS = {
    "ConsilienceError": (Exception,),
    "DataError": ("ConsilienceError", ValueError),
    "FolderError": ("ConsilienceError", FileExistsError),
    "FormatError": ("DataError",),
    "ColumnError": ("DataError",),
    "IdError": ("DataError",),
    "MethodError": ("ConsilienceError", ValueError),
    "ParameterError": ("ConsilienceError", ValueError),
    "ConsilienceWarning": (UserWarning,),
    "DataWarning": ("ConsilienceWarning",),
    "ConvergenceWarning": ("ConsilienceWarning",),
    "FewLabelsWarning": ("ConsilienceWarning",),
}

#: Parameters and their defaults: changing one is a change for every user.
PARAMETERS: dict[str, dict[str, object]] = {
    "MajorityVote": {},
    "OneCoin": {
        "smoothing": 0.0,
        "prior": "learned",
        "max_iter": 1000,
        "tol": 1e-7,
        "accelerate": True,
        "random_state": None,
        "callback": None,
    },
    "PlainSymNMF": {
        "refine": None,
        "rotations": 20,
        "alpha": 1e-6,
        "decay": None,
        "shrinkage": 0.25,
        "random_state": None,
        "callback": None,
    },
}
PARAMETERS["DawidSkeneEM"] = {**PARAMETERS["OneCoin"], "shrinkage": 0.0}
PARAMETERS["DesignatedSymNMF"] = {**PARAMETERS["PlainSymNMF"], "through": None}
PARAMETERS["RobustSymNMF"] = {
    **PARAMETERS["PlainSymNMF"],
    "starts": 4,
    "rotations": 10,
    "reweigh": True,
    "count_weights": True,
    "max_iter": 1000,
    "tol": 1e-7,
}


def test_the_public_names_are_these() -> None:
    assert sorted(cs.__all__) == sorted(PUBLIC)
    assert len(set(cs.__all__)) == len(cs.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(cs, name) is not None
    assert name in dir(cs)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(cs, "nonsense")  # noqa: B009
    assert not hasattr(cs, "Ids")


def test_a_star_import_brings_all_of_them() -> None:
    script = (
        "from consilience import *\nimport consilience\nprint([n for n in consilience.__all__ if n not in globals()])"
    )
    path = str(Path(cs.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{script}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_importing_the_package_imports_nothing_heavy() -> None:
    path = str(Path(cs.__file__).parents[1])
    script = (
        f"import sys; sys.path.insert(0, {path!r}); import consilience\n"
        "print([n for n in ('numpy', 'numba', 'pyarrow', 'sklearn', 'rich', 'click') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_estimators_parameters_are_these(name: str) -> None:
    assert getattr(cs, name)().get_params() == PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_estimators_have_scikit_learns_verbs(name: str) -> None:
    for verb in ("fit", "predict", "predict_proba", "fit_predict", "fit_predict_proba", "set_params"):
        assert callable(getattr(getattr(cs, name)(), verb))


def test_methods_by_name() -> None:
    assert set(cs.METHODS) == {"majority", "ds-em", "one-coin", "rob-symnmf", "des-symnmf", "symnmf"}
    for name, method in cs.METHODS.items():
        assert method.name == name
        assert method.estimator in cs.__all__


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_the_tree_of_errors_and_warnings(name: str) -> None:
    kind = getattr(cs.exceptions, name)
    assert name in cs.exceptions.__all__
    for base in EXCEPTIONS[name]:
        assert issubclass(kind, getattr(cs.exceptions, base) if isinstance(base, str) else base)


def test_there_are_no_other_exceptions() -> None:
    assert sorted(cs.exceptions.__all__) == sorted(EXCEPTIONS)


@pytest.mark.parametrize(
    "module",
    [
        "consilience.aggregation.aggregate",
        "consilience.aggregation.em",
        "consilience.aggregation.estimators",
        "consilience.aggregation.registry",
        "consilience.annotations",
        "consilience.cli",
        "consilience.consensus",
        "consilience.datasets",
        "consilience.dawid_skene",
        "consilience.exceptions",
        "consilience.io",
    ],
)
def test_every_module_has_what_it_lists(module: str) -> None:
    loaded = import_module(module)
    assert loaded.__all__
    assert all(hasattr(loaded, name) for name in loaded.__all__)


def test_the_package_is_typed() -> None:
    assert (Path(cs.__file__).parent / "py.typed").is_file()
