"""The share of a class when only sensitivity and specificity of the labels are known.

If a share q of the labels is positive, labels name a positive item with probability ``sensitivity`` and spare a
negative one with probability ``specificity``, then (Rogan & Gladen 1978)

    θ = (q + specificity - 1) / (sensitivity + specificity - 1),

with the variance of a ratio, to which sensitivity and specificity contribute as far as they were measured on few items.

W. J. Rogan and B. Gladen, "Estimating prevalence from the results of a screening test" (1978).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import ParameterError
from consilience.inference.regression_estimate import MeanEstimate

__all__ = ["rogan_gladen"]


def rogan_gladen(share: float, n_items: int, sensitivity: Any, specificity: Any, level: float) -> MeanEstimate:
    """Return the corrected share; rates are numbers, or pairs (right, tested) if they were measured."""
    from scipy.stats import norm

    (se, var_se), (sp, var_sp) = _rate("sensitivity", sensitivity), _rate("specificity", specificity)
    youden = se + sp - 1.0
    if youden <= 0:
        raise ParameterError(
            f"sensitivity {se:g} and specificity {sp:g} are no better than guesses (their sum must exceed 1): "
            "the labels say nothing about the share"
        )
    value = float(np.clip((share + sp - 1.0) / youden, 0.0, 1.0))
    variance = share * (1.0 - share) / n_items + value**2 * var_se + (1.0 - value) ** 2 * var_sp
    error = float(np.sqrt(variance)) / youden
    step = float(norm.ppf(0.5 + level / 2.0)) * error
    return MeanEstimate(value, max(value - step, 0.0), min(value + step, 1.0), error, 0)


def _rate(name: str, given: Any) -> tuple[float, float]:
    """Return a rate and its variance."""
    pair = given if isinstance(given, tuple | list) else (given, 1.0)
    try:
        right, tested = map(float, pair)
        rate = right / tested
    except (TypeError, ValueError, ZeroDivisionError):
        rate = np.nan
    if not 0.0 <= rate <= 1.0:
        raise ParameterError(f"{name} must be a share from 0 to 1, or a pair (right, tested), not {given!r}")
    if pair is not given:
        return rate, 0.0
    # with half an answer more of each kind: a rate that was measured on few items is never certain
    near = (right + 0.5) / (tested + 1.0)
    return rate, near * (1.0 - near) / tested
