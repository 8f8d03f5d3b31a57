"""The public surface: what is there is promised, what is promised is there."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import consilience as cs

PUBLIC = [
    "AND",
    "EBCC",
    "GLAD",
    "IBCC",
    "KOS",
    "METHODS",
    "Routing",
    "SPA",
    "Agreement",
    "Annotations",
    "Audit",
    "Auto",
    "ClassOneCoin",
    "Comparison",
    "ComparisonPlan",
    "CompletedVote",
    "Consensus",
    "CoupledNMF",
    "CrowdClassifier",
    "DawidSkene",
    "DawidSkeneEM",
    "DesignatedSymNMF",
    "Diagnosis",
    "EigenRatio",
    "EnsembleClustering",
    "Estimate",
    "GhoshSVD",
    "HardItemsDawidSkene",
    "HiddenMarkov",
    "HierarchicalDawidSkene",
    "JointPMF",
    "JointPMFClassifier",
    "JointPMFRecommender",
    "MajorityVote",
    "MinimaxEntropy",
    "MultiSPA",
    "NetworkConsensus",
    "MultiLabelConsensus",
    "MultiModel",
    "MultiRun",
    "NumericConsensus",
    "NumericModel",
    "NumericRun",
    "OneCoin",
    "OpenAnswers",
    "OpenModel",
    "OpenRun",
    "OrdinalDawidSkene",
    "OrdinalRun",
    "PlainSymNMF",
    "PropensityDawidSkene",
    "QuestionRuns",
    "Plan",
    "Ranking",
    "RobustSymNMF",
    "Scanned",
    "SequenceAnnotations",
    "SequenceConsensus",
    "SequenceRun",
    "SketchedSubspaceClustering",
    "SpectralDawidSkene",
    "SpectralMetaLearner",
    "Stream",
    "SubspaceClustering",
    "SymNMF",
    "TensorADMM",
    "TensorAugmentation",
    "TriangularEstimation",
    "__version__",
    "aggregate",
    "aggregate_questions",
    "agreement",
    "audit",
    "compare",
    "crowdkit",
    "datasets",
    "diagnose",
    "estimate",
    "exceptions",
    "factor",
    "from_moments",
    "guarantees",
    "label_curves",
    "label_errors",
    "load",
    "metrics",
    "moments",
    "nearest_neighbours",
    "plan",
    "plot",
    "rank",
    "read",
    "read_edges",
    "read_sequence_truth",
    "read_sequences",
    "read_truth",
    "recognise",
    "report",
    "review",
    "route",
    "scan",
    "simulate",
    "spans",
    "write",
]

EXCEPTIONS = {
    "ConsilienceError": (Exception,),
    "DataError": ("ConsilienceError", ValueError),
    "EngineError": ("ConsilienceError", RuntimeError),
    "FolderError": ("ConsilienceError", FileExistsError),
    "FormatError": ("DataError",),
    "ColumnError": ("DataError", KeyError),
    "IdError": ("DataError",),
    "MethodError": ("ConsilienceError", ValueError),
    "ParameterError": ("ConsilienceError", ValueError),
    "ConsilienceWarning": (UserWarning,),
    "DataWarning": ("ConsilienceWarning",),
    "ConvergenceWarning": ("ConsilienceWarning",),
    "EngineWarning": ("ConsilienceWarning",),
    "FewLabelsWarning": ("ConsilienceWarning",),
    "VerdictWarning": ("ConsilienceWarning",),
}

METHODS = [
    "auto",
    "majority",
    "class-one-coin",
    "cnmf",
    "cria-v",
    "des-symnmf",
    "ds-em",
    "ebcc",
    "eigenratio",
    "ghosh-svd",
    "glad",
    "hard-items",
    "hierarchical",
    "ibcc",
    "kos",
    "minimax-entropy",
    "multispa",
    "one-coin",
    "open-answers",
    "ordinal",
    "pg-tac",
    "propensity",
    "rob-symnmf",
    "sml",
    "spectral-ds",
    "symnmf",
    "te",
    "tensor-admm",
]

_REFINABLE: dict[str, object] = {
    "refine": None,
    "em_rounds": None,
    "em_floor": 0.0,
    "random_state": None,
    "callback": None,
}
_ITERATIVE: dict[str, object] = {**_REFINABLE, "max_iter": 1000, "tol": 1e-7}
_BY_EM: dict[str, object] = {
    "smoothing": 0.0,
    "prior": "learned",
    "max_iter": 1000,
    "tol": 1e-7,
    "accelerate": True,
    "random_state": None,
    "callback": None,
}
_SYMNMF: dict[str, object] = {
    **_REFINABLE,
    "rotations": 20,
    "alpha": 1e-6,
    "decay": None,
    "shrinkage": 0.25,
    "prior": "learned",
}
_COMPLETION: dict[str, object] = {**_ITERATIVE, "penalty": 0.05, "max_iter": 100, "tol": 1e-3}

#: Parameters and their defaults: changing one is a change for every user.
PARAMETERS: dict[str, dict[str, object]] = {
    "Auto": {"silence": "auto", "max_iter": 1000, "tol": 1e-6, "random_state": None, "callback": None},
    "MajorityVote": {},
    "DawidSkeneEM": {**_BY_EM, "shrinkage": 0.0, "floor": 0.0},
    "OneCoin": _BY_EM,
    "ClassOneCoin": _BY_EM,
    "IBCC": {
        **_ITERATIVE,
        "smoothing": 1.0,
        "diagonal": 3.0,
        "shrinkage": 0.0,
        "prior": "learned",
        "accelerate": True,
    },
    "HierarchicalDawidSkene": {
        **_ITERATIVE,
        "coin": False,
        "prior": "learned",
        "weights": None,
        "accelerate": True,
    },
    "EBCC": {
        **_ITERATIVE,
        "subtypes": 10,
        "smoothing": 1.0,
        "diagonal": 3.0,
        "concentration": 0.1,
        "empirical": True,
        "starts": 10,
        "accelerate": True,
        "max_iter": 500,
        "tol": 1e-6,
    },
    "RobustSymNMF": {
        **_SYMNMF,
        "init": "votes",
        "xi": None,
        "radius": 1.0,
        "starts": 4,
        "rotations": 10,
        "reweigh": True,
        "count_weights": True,
        "max_iter": 1000,
        "tol": 1e-7,
    },
    "DesignatedSymNMF": {**_SYMNMF, "through": None, "rounds": 3},
    "PlainSymNMF": _SYMNMF,
    "OrdinalDawidSkene": {
        **_ITERATIVE,
        "order": None,
        "places": None,
        "prior": "learned",
        "weights": None,
        "accelerate": True,
    },
    "OpenAnswers": {
        "options": None,
        "spread": 0.7,
        "max_iter": 1000,
        "tol": 1e-7,
        "random_state": None,
        "callback": None,
    },
    "PropensityDawidSkene": {**_ITERATIVE, "evidence": 50.0, "accuracy": 0.9, "silent_label": None},
    "MultiSPA": {**_REFINABLE, "shrinkage": 0.25, "shrink_columns": True, "prior": "learned"},
    "CoupledNMF": {**_ITERATIVE, "shrinkage": 0.25, "init": None, "prior": "learned", "max_iter": 2000},
    "TensorADMM": {
        **_ITERATIVE,
        "groups": None,
        "rule": "map",
        "prior": "learned",
        "count_weights": True,
        "init": "votes",
        "starts": 1,
        "shrinkage": 0.25,
        "fallback": True,
        "max_iter": 500,
        "tol": 1e-6,
    },
    "SpectralDawidSkene": {**_REFINABLE, "partitions": 8, "rounds": 8, "shrinkage": 0.25},
    "KOS": {**_ITERATIVE, "center": True, "normalize": True, "prior": "learned", "tol": 1e-4},
    "GhoshSVD": {**_REFINABLE, "normalize": True},
    "EigenRatio": {**_REFINABLE, "count_weights": False},
    "SpectralMetaLearner": {**_ITERATIVE, "imbalance": "likelihood", "shrinkage": 0.25, "tol": 1e-5},
    "TriangularEstimation": {**_REFINABLE, "center": True, "smoothing": 3.0},
    "HardItemsDawidSkene": {**_ITERATIVE, "spread": None, "prior": "learned", "accelerate": True},
    "GLAD": {**_ITERATIVE, "prior": "uniform"},
    "MinimaxEntropy": {**_ITERATIVE, "annotator_penalty": 1.0, "item_penalty": 1.0, "prior": "uniform", "tol": 1e-6},
    "TensorAugmentation": _COMPLETION,
    "CompletedVote": _COMPLETION,
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
    assert list(cs.METHODS) == METHODS
    assert sorted(method.estimator for method in cs.METHODS.values()) == sorted(PARAMETERS)
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
        "consilience.methods.base.running",
        "consilience.fitting.em",
        "consilience.methods.ds_em",
        "consilience.methods.base.registry",
        "consilience.data.annotations",
        "consilience.cli",
        "consilience.runs.consensus",
        "consilience.datasets",
        "consilience.models.dawid_skene",
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


def test_every_import_of_the_stub_is_a_public_name() -> None:
    """The package reads its stub line by line: an import that is written in another way would be lost."""
    stub = ast.parse((Path(cs.__file__).with_suffix(".pyi")).read_text("utf-8"))
    imported = [alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(map(str, imported)) == sorted(set(PUBLIC) - {"__version__"})
