"""The simulated crowds of Ibrahim & Fu (2022), App. C.1.1, and the error of their Tables 6 and 7.

M annotators whose columns are drawn from a flat Dirichlet, except for one who is nearly perfect
(a "class specialist" for all classes): ‖A_m(k, :) - e_k‖ ≤ ε for all k.  Without one the factor H of X = H Hᵀ is not
unique; with ε > 0 it is nearly unique.
"""

from __future__ import annotations

import numpy as np

from consilience.data.ids import Ids
from consilience.kernels._arrays import Floats
from consilience.metrics import mean_squared_error
from consilience.models.dawid_skene import DawidSkene
from consilience.moments import CoOccurrences

__all__ = ["CLASSES", "CROWD", "EPSILON", "TRIALS", "exact_pairs", "mean_squared_error", "random_model"]

CROWD, CLASSES, TRIALS, EPSILON = 25, 3, 20, 0.1


def random_model(rng: np.random.Generator, *, uniform: bool, distance: float | None = None) -> DawidSkene:
    """Draw a crowd with one specialist.

    Parameters
    ----------
    rng
        Random generator.
    uniform
        According to the paper the prior is drawn from a flat Dirichlet too; the figures of its Table 7 can be
        reproduced only with a uniform one.
    distance
        Distance of the specialist from perfect.  By default uniform between 0 and ε: the paper only states that it is
        within ε.
    """
    confusions = np.ascontiguousarray(rng.dirichlet(np.ones(CLASSES), (CROWD, CLASSES)).transpose(0, 2, 1))
    distance = rng.uniform(0.0, EPSILON) if distance is None else distance
    confusions[rng.integers(CROWD)] = _specialist(rng, distance)
    prior = np.full(CLASSES, 1.0 / CLASSES) if uniform else rng.dirichlet(np.ones(CLASSES))
    return DawidSkene(prior, confusions, Ids.range(CLASSES), Ids.range(CROWD))


def _specialist(rng: np.random.Generator, distance: float) -> Floats:
    """Draw a confusion matrix whose worst row is ``distance`` from its unit vector."""
    identity = np.eye(CLASSES)
    # columns of `away` sum to zero, so those of the result sum to one
    away = rng.dirichlet(np.ones(CLASSES), CLASSES).T - identity
    A: Floats = identity + distance * away / np.linalg.norm(away, axis=1).max()
    return A


def exact_pairs(model: DawidSkene, missing: float, rng: np.random.Generator) -> CoOccurrences:
    """Return R[m, j] = A_m D A_jᵀ without sampling error; each pair is missing with probability ``missing``."""
    first, second = np.triu_indices(CROWD, 1)
    seen = rng.random(first.size) >= missing
    first, second = first[seen], second[seen]
    blocks = np.einsum("pik,k,pjk->pij", model.confusions[first], model.prior, model.confusions[second])
    return CoOccurrences(np.stack([first, second], axis=1), blocks, model.annotators, model.classes)
