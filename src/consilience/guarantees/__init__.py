"""The theorems of the documents as calculators: with these annotators and this much data, the bound is ….

A bound holds for every data set of its kind, so it is far above what usually happens; where it says nothing, its
sentence says so.  :func:`error_bound` and :func:`labels_needed` are tight enough to plan with.
"""

from consilience.guarantees.bounds import Bound, Condition
from consilience.guarantees.crowds import (
    block_error,
    imputation_bound,
    items_for_block_error,
    items_for_imputation,
    robust_bound,
    symnmf_convergence,
)
from consilience.guarantees.ensembles import error_bound, error_exponent, known_answers_needed, labels_needed
from consilience.guarantees.joint_pmf import cnmf_spa_bound, em_bound, marginal_error
from consilience.guarantees.provable_nmf import Correlations, correlations, decay_order, recovery_condition
from consilience.guarantees.sketching import code_distance_bound, representation_bound, sketch_distortion

__all__ = [
    "Bound",
    "Condition",
    "Correlations",
    "block_error",
    "cnmf_spa_bound",
    "code_distance_bound",
    "correlations",
    "decay_order",
    "em_bound",
    "error_bound",
    "error_exponent",
    "imputation_bound",
    "items_for_block_error",
    "items_for_imputation",
    "known_answers_needed",
    "labels_needed",
    "marginal_error",
    "recovery_condition",
    "representation_bound",
    "robust_bound",
    "sketch_distortion",
    "symnmf_convergence",
]
