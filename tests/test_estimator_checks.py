"""scikit-learn's checks of every public estimator: which fail, and why."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_transformer_general
from tests.estimators import failed_checks

import consilience as cs
from consilience.methods.base.registry import METHODS

#: Estimators that pass all checks, or fail those that they declare, in the tests of their own folders.
ELSEWHERE = {
    *(method.estimator for method in METHODS.values()),
    *("NumericConsensus", "MultiLabelConsensus", "CrowdClassifier"),
    *("SymNMF", "SPA", "AND", "JointPMF", "JointPMFClassifier", "JointPMFRecommender", "SketchedSubspaceClustering"),
    *("SubspaceClustering", "EnsembleClustering"),
}
#: Estimators that cannot learn from the matrix of numbers that the checks pass, and the refusal that explains it.
REFUSES = {
    "NetworkConsensus": "needs to know which items are neighbours",  # an argument of fit
    "SequenceConsensus": "Unsupported dataframe type",  # sequences are frames with a column of positions
}


def public_estimators() -> set[str]:
    listed = Path(inspect.getfile(cs)).with_suffix(".pyi").read_text(encoding="utf-8")
    names = re.findall(r"\b([A-Z]\w+) as \1\b", listed)
    return {name for name in names if hasattr(getattr(cs, name), "fit") and hasattr(getattr(cs, name), "get_params")}


def said(error: BaseException | None) -> str:
    """Return the message of an error and of those that caused it."""
    return "" if error is None else f"{error} {said(error.__cause__ or error.__context__)}"


def test_every_public_estimator_is_checked() -> None:
    assert public_estimators() == ELSEWHERE | set(REFUSES)


@pytest.mark.parametrize("name", REFUSES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_failures_have_one_reason(name: str) -> None:
    failed: dict[str, Any] = failed_checks(getattr(cs, name)(), at_least=12)
    assert failed
    # one check asserts that nothing is raised before fitting, and does not keep the cause
    others = {check: error for check, error in failed.items() if REFUSES[name] not in said(error)}
    assert others == {}


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
def test_symnmf_of_full_rank_terminates() -> None:
    check_transformer_general("SymNMF", cs.SymNMF())
