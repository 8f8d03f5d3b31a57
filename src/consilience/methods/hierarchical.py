"""Dawid and Skene's model with annotators drawn from a crowd whose habits are learned too.

    A_m(:, k) ~ Dirichlet(β(:, k)),    β: how the crowd answers, and how much its members are alike

As in :mod:`consilience.methods.ibcc` the confusions are integrated out by variational Bayes; here β is not given
but maximises the lower bound F (empirical Bayes), so the data decides how similar annotators with few labels are
taken to be to the others.  For given expected counts c the part of F that depends on β is

    Σ_m Σ_k  log B(c_m(:, k) + β(:, k)) - log B(β(:, k)),        B the multivariate beta function,

and Minka's fixed point raises it (T. Minka, "Estimating a Dirichlet distribution", 2000, eq. (55)):

    β(i, k)  ←  β(i, k) · Σ_m [ψ(c_m(i, k) + β(i, k)) - ψ(β(i, k))] / (1 + Σ_m [ψ(c_m(k) + β(k)) - ψ(β(k))]),

where c_m(k) and β(k) are sums over i, and the 1 is the rate of an exponential prior: without it, β grows without bound
where annotators differ little, and all annotators become the same.  With ``coin`` an annotator has one probability
of being right, whatever the class, drawn from a Beta distribution learned in the same way; errors are spread evenly.
F shows which of the two suits the data: as a lower bound of the log-probability of all labels, the models integrated
out, it pays for parameters that the data does not need.

====== ======================================== =============
symbol name                                     shape
====== ======================================== =============
β      ``Dirichlet.pseudo``                     (K, K)
c      ``Statistics.counts``                    (M, K, K)
F      ``details["lower_bound"]``, ``history``  a number
====== ======================================== =============
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.checkpoint import Checkpoint, Keeper
from consilience.engine.passes import Labels, Passes
from consilience.exceptions import ParameterError
from consilience.fitting.em import Callback, Parameters, sweep_of, without_blanks
from consilience.fitting.fit import Fit
from consilience.fitting.variational import (
    LEAST,
    RATE,
    Beliefs,
    ConfusionBeliefs,
    Dirichlet,
    Expectation,
    Weighted,
    fit_of,
    flat_proportions,
    from_votes,
    informed,
    variational_ascent,
)
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_statistics
from consilience.methods.base.constants import CROWD_RIGHT, CROWD_WRONG
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.models.dawid_skene import DawidSkene

__all__ = [
    "METHOD",
    "CoinBeliefs",
    "CrowdBeliefs",
    "HierarchicalDawidSkene",
    "Hierarchy",
    "checked_weights",
    "hierarchical",
]

#: Steps of the fixed point in every pass over the data, and before the first pass from a given start.
_STEPS, _FIRST_STEPS = 3, 24


class HierarchicalDawidSkene(IterativeEstimator):
    r"""Dawid and Skene's model with annotators drawn from a crowd whose habits are learned too.

    .. math:: A_m(:, k) \sim \text{Dirichlet}(\beta(:, k)), \qquad \beta \text{ by empirical Bayes}

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    coin
        One probability of being right for every annotator, instead of a confusion matrix.
    prior
        "learned" (from one pseudo-item per class), or "uniform" to hold all classes equally likely.
    weights
        How many times the labels of each annotator count, (M,); once by default.
    max_iter, tol
        Passes over the data, and the relative change of the lower bound that ends them (0: run all passes).
    accelerate
        Extrapolate along the steps (SQUAREM) where that raises the lower bound.
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every pass; ends the fit by returning True.
    """

    _method = "hierarchical"

    coin: bool = False
    prior: Literal["learned", "uniform"] = "learned"
    weights: Sequence[float] | Floats | None = None
    accelerate: bool = True


def hierarchical(
    annotations: Annotations,
    *,
    coin: bool = False,
    prior: Literal["learned", "uniform"] = "learned",
    weights: Sequence[float] | Floats | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
    start: Floats | None = None,
) -> Fit:
    """Fit by variational Bayes, the crowd's habits by empirical Bayes; see :class:`HierarchicalDawidSkene`.

    ``start`` is a posterior to start from, (N, K), instead of vote shares.
    """
    hierarchy = Hierarchy(annotations, coin=coin, prior=prior, weights=weights, accelerate=accelerate, start=start)
    hierarchy.climb(max_iter=max_iter, tol=tol, callback=callback)
    return hierarchy.fit()


METHOD = Method(
    "hierarchical", hierarchical, "HierarchicalDawidSkene", "confusions drawn from a crowd whose habits are learned"
)


class Hierarchy:
    """The fit of :func:`hierarchical`, which can be interrupted and continued; the parameters are the same.

    Labels that are not in memory are fitted from the votes only, without a ``start``, and have no :meth:`posterior`.
    """

    def __init__(
        self,
        annotations: Labels,
        *,
        coin: bool = False,
        prior: Literal["learned", "uniform"] = "learned",
        weights: Sequence[float] | Floats | None = None,
        accelerate: bool = True,
        start: Floats | None = None,
    ) -> None:
        a = informed(annotations)
        self.annotations = annotations
        self.weights = None if weights is None else checked_weights(weights, a.n_annotators)
        proportions = flat_proportions(a.n_classes) if prior == "learned" else None
        habits = (CoinBeliefs if coin else CrowdBeliefs)(proportions, a.n_classes)
        self._habits = habits
        beliefs: Beliefs = habits if self.weights is None else Weighted(habits, self.weights)
        begin = from_votes(a)
        if start is not None and isinstance(annotations, Annotations):
            # habits that suit the start, before anything else moves
            begin = vote_statistics(
                annotations.indptr, annotations.annotator, annotations.label, start, annotations.n_annotators
            )
            habits.settle(beliefs.count(begin) if isinstance(beliefs, Weighted) else begin)
        self._beliefs = beliefs
        sweep = sweep_of(a) if isinstance(a, Annotations) else without_blanks(a, a.sweep)
        keeper = None
        if isinstance(a, Passes) and a.checkpoint:
            assert isinstance(habits, CrowdBeliefs)
            keeper = _HabitKeeper(a.checkpoint, habits)
        self._ascent = variational_ascent(
            sweep, beliefs, begin, accelerate=accelerate, keeper=keeper, forget=habits.forget
        )
        self._tol = 0.0

    def climb(self, *, max_iter: int, tol: float, callback: Callback | None = None) -> Hierarchy:
        """Continue until there were ``max_iter`` passes in all, or a step changes the bound by less than ``tol``."""
        self._tol = tol
        self._ascent.run(max_iter=max_iter, tol=tol, callback=callback)
        return self

    @property
    def bound(self) -> float:
        """The best lower bound so far."""
        return self._ascent.objective

    @property
    def means(self) -> Parameters:
        """The expected parameters."""
        return self._beliefs.means(self._ascent.at)

    @property
    def pseudo(self) -> Floats:
        """The crowd's habits β, (K, K); of confusions, not of coins."""
        assert isinstance(self._habits, CrowdBeliefs)
        return self._habits.confusions.pseudo

    @property
    def model(self) -> DawidSkene:
        """The expected model."""
        return DawidSkene(*self.means, self.annotations.class_ids, self.annotations.annotator_ids)

    @property
    def history(self) -> list[float]:
        """The lower bound after every pass."""
        return list(self._ascent.history)

    @property
    def converged(self) -> bool:
        """Whether the last climb met its tolerance."""
        return self._ascent.converged

    def posterior(self) -> Floats:
        """Return the posterior under the expected model, (N, K).

        It applies to new items too, and is slightly better calibrated than the variational one.
        """
        assert isinstance(self.annotations, Annotations)
        return self.model.posterior(self.annotations, self.weights)

    def fit(self) -> Fit:
        """Return the result."""
        assert isinstance(self.annotations, Annotations)
        model = self.model
        posterior, log_likelihood = model.posterior_and_likelihood(self.annotations, self.weights)
        if self.weights is not None:
            log_likelihood = model.log_likelihood(self.annotations)
        return fit_of(self.annotations, model, posterior, log_likelihood, self._ascent, self._tol)


def checked_weights(weights: Sequence[float] | Floats, n_annotators: int) -> Floats:
    """Return the weights of annotators as an array; raise unless there is a number ≥ 0 for each."""
    checked = np.asarray(weights, float)
    if checked.shape != (n_annotators,) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ParameterError(f"weights must hold a number ≥ 0 for each of the {n_annotators} annotators")
    return checked


class CrowdBeliefs(ConfusionBeliefs):
    """Confusions drawn from a crowd; β takes a few steps of its fixed point in every pass.

    The steps raise the lower bound at the counts of the pass, so learning β never lowers it.
    """

    def __init__(self, proportions: Dirichlet | None, n_classes: int) -> None:
        K = n_classes
        beta = np.where(np.eye(K, dtype=bool), CROWD_RIGHT, max(CROWD_WRONG / max(K - 1, 1), LEAST))
        super().__init__(proportions, Dirichlet(beta, axis=-2))
        self._earlier = self.confusions

    def settle(self, statistics: Statistics) -> None:
        """Learn the habits that suit these counts."""
        self.confusions = self.confusions.learned(statistics.counts, _FIRST_STEPS)

    def forget(self) -> None:
        """Return to the habits before the last pass."""
        self.confusions = self._earlier

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn the habits that suit these counts, then return the expected logarithms."""
        self._earlier, self.confusions = self.confusions, self.confusions.learned(statistics.counts, _STEPS)
        expected = super().__call__(statistics)
        return expected._replace(divergence=expected.divergence + RATE * float(self.confusions.pseudo.sum()))


class _HabitKeeper(Keeper):
    """Saves the crowd's habits with the state of the ascent."""

    def __init__(self, checkpoint: Checkpoint, habits: CrowdBeliefs) -> None:
        super().__init__(checkpoint, "hierarchy")
        self.habits = habits

    def load(self, n_arrays: int) -> tuple[dict[str, Any], list[Any]] | None:
        """Return the last state, and set the habits; None if there is none."""
        found = super().load(n_arrays + 1)
        if found is None:
            return None
        content, (*arrays, pseudo) = found
        self.habits.confusions = Dirichlet(pseudo, axis=-2)
        return content, arrays

    def save(self, content: Mapping[str, Any], arrays: Iterable[Any]) -> None:
        """Write a state, unless the last one was written a moment ago."""
        super().save(content, [*arrays, self.habits.confusions.pseudo])


class CoinBeliefs:
    """One probability of being right for every annotator, drawn from the crowd's Beta distribution."""

    def __init__(self, proportions: Dirichlet | None, n_classes: int) -> None:
        self.proportions = proportions
        self.n_classes = n_classes
        self.coin = self._earlier = Dirichlet(np.array([CROWD_RIGHT, CROWD_WRONG]))

    def settle(self, statistics: Statistics) -> None:
        """Learn the habits that suit these counts."""
        self.coin = self.coin.learned(self._tosses(statistics), _FIRST_STEPS)

    def forget(self) -> None:
        """Return to the habits before the last pass."""
        self.coin = self._earlier

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn the habits that suit these counts, then return the expected logarithms."""
        K, tosses = self.n_classes, self._tosses(statistics)
        self._earlier, self.coin = self.coin, self.coin.learned(tosses, _STEPS)
        expected, divergence = self.coin.expected_log(tosses)
        divergence += RATE * float(self.coin.pseudo.sum())
        # a wrong answer is any of the K - 1 others
        right, wrong = np.exp(expected[:, 0]), np.exp(expected[:, 1]) / max(K - 1, 1)
        tables = np.where(np.eye(K, dtype=bool), right[:, None, None], wrong[:, None, None])
        if self.proportions is None:
            return Expectation(Parameters(np.full(K, 1.0 / K), tables), divergence)
        log_prior, further = self.proportions.expected_log(statistics.class_counts)
        return Expectation(Parameters(np.exp(log_prior), tables), divergence + further)

    def means(self, statistics: Statistics) -> Parameters:
        """Return the expected parameters."""
        K = self.n_classes
        right, wrong = self.coin.mean(self._tosses(statistics)).T
        confusions = np.where(np.eye(K, dtype=bool), right[:, None, None], wrong[:, None, None] / max(K - 1, 1))
        if K == 1:
            confusions = np.ones_like(confusions)
        prior = np.full(K, 1.0 / K) if self.proportions is None else self.proportions.mean(statistics.class_counts)
        return Parameters(prior, confusions)

    @staticmethod
    def _tosses(statistics: Statistics) -> Floats:
        """Return how often each annotator was right, and wrong, (M, 2)."""
        right = np.einsum("mkk->m", statistics.counts)
        given = statistics.counts.reshape(right.size, -1).sum(axis=1)
        return np.stack([right, np.maximum(given - right, 0.0)], axis=1)
