"""The checks of scikit-learn that an estimator fails."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import check_estimator


def failed_checks(estimator: Any, at_least: int) -> dict[str, Any]:
    """Return the checks that fail, by name; ``at_least`` so many must pass, or nothing was checked."""
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) >= at_least
    return {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
