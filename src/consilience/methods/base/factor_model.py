"""Dawid-Skene parameters from the factor H of the co-occurrence matrix: what the SymNMF methods share.

    X = H Hᵀ,  H = [A_1; …; A_M] D^(1/2)        (Ibrahim & Fu 2022, eq. (6))

The methods differ in how X is completed: not at all (``symnmf``), along designated annotators (``des-symnmf``), or by
robust factors (``rob-symnmf``).  Then its square root is rotated to be nonnegative, and prior and confusions are read
off H.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from consilience.engine.passes import Labels, passes_of
from consilience.exceptions import FewLabelsWarning
from consilience.factor.square_root import square_root
from consilience.factor.symnmf import rotate
from consilience.fitting.em import ConfusionStep, Parameters
from consilience.fitting.fit import Caution, Fit, vote_start
from consilience.fitting.known import by_agreement, permuted, taught
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base.canonical import Order
from consilience.methods.base.constants import RANDOM_MODELS
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.graph import Group, groups
from consilience.moments.imputation import random_factors

__all__ = ["PairFit", "model_of_factor", "rotate_groups"]

#: Labels added to every cell of the vote start, so that no factor is singular.
_START_SMOOTHING = 0.1
#: Relative change of SymNMF's objective that ends it (App. C).
_ROTATED = 1e-6
#: Models are compared by the likelihood of at least so many labels.
_JUDGED = 1 << 21


class PairFit:
    """The moments of one fit from pairs of annotators, and how its factor becomes a model."""

    def __init__(
        self,
        annotations: Labels,
        *,
        rotations: int,
        alpha: float,
        decay: float | None,
        shrinkage: float,
        prior: Literal["learned", "uniform"] = "learned",
        random_state: Any,
    ) -> None:
        self.passes, self.rng = passes_of(annotations), np.random.default_rng(random_state)
        # all that follows, until a model is found, is in canonical order
        self.order = Order.of(self.passes)
        self.pairs = self.order.pairs(self.passes.pairs())
        self.graph = groups(self.pairs)
        self.votes = self.order.parameters(vote_start(self.passes, ConfusionStep(_START_SMOOTHING)))
        self.shrinkage, self.learn_prior = shrinkage, prior == "learned"
        self.rotation: dict[str, Any] = {"rotations": rotations, "alpha": alpha, "decay": decay}

    def model(self, U: Floats) -> Parameters:
        """Rotate a square root of X, (M, K, K), and read prior and confusions off the result."""
        H = rotate_groups(U, self.graph, self.votes, random_state=self.rng, **self.rotation)
        found = model_of_factor(H, self.passes.labels_per_annotator[self.order.annotators], self.shrinkage)
        return found if self.learn_prior else found._replace(prior=np.full_like(found.prior, 1.0 / found.prior.size))

    def random_factors(self) -> Floats:
        """Draw factors of all annotators, (M, K, K)."""
        return random_factors(self.rng, self.passes.n_annotators, self.passes.n_classes)

    def fit(self, models: Sequence[Parameters], **details: Any) -> tuple[int, Fit]:
        """Return the number of the most likely model, and the fit of it.

        The other models, the votes and some random ones are candidates for ``+em``.
        """
        K, back = self.passes.n_classes, self.order.back
        best, ordered, log_likelihood = self._most_likely([back.parameters(model) for model in models])
        others = [back.parameters(self.votes)]
        for parameters in ordered:
            if all(_differ(parameters, other) for other in (ordered[best], *others)):
                others.append(parameters)
        flat = np.full(K, 1.0 / K)
        drawn = [Parameters(flat, self.random_factors() * np.sqrt(K)) for _ in range(RANDOM_MODELS)]
        others += [back.parameters(parameters) for parameters in drawn]
        model = DawidSkene(*ordered[best], self.passes.class_ids, self.passes.annotator_ids)
        return best, Fit(
            model,
            self.passes.posterior(model),
            log_likelihood,
            cautions=_cautions(self.graph),
            candidates=tuple(others),
            details={"pairs_missing": self.pairs.missing, **details},
        )

    def fit_matrix(self, matrix: Floats, **details: Any) -> Fit:
        """Return the fit of a completed matrix X, (M K, M K)."""
        M, K = self.passes.n_annotators, self.passes.n_classes
        U = np.zeros((M, K, K))
        blocks = matrix.reshape(M, K, M, K)
        for group in self.graph:
            if group.determined:
                part = blocks[group.members][:, :, group.members]
                side = group.members.size * K
                U[group.members] = square_root(part.reshape(side, side), K).reshape(-1, K, K)
        return self.fit([self.model(U)], **details)[1]

    def _most_likely(self, models: Sequence[Parameters]) -> tuple[int, list[Parameters], float]:
        """Return the number of the model with the largest likelihood, all models with ordered classes, and its value.

        Models are compared on a sample of the items where there are many; the log-likelihood is that of all items.
        """
        passes = self.passes
        step = passes.n_labels // _JUDGED
        judged = passes if step <= 1 else passes_of(passes.sample(step))
        ordered, likelihoods = [], []
        for prior, confusions in models:
            statistics = judged.sweep(prior, confusions, gold=False)
            order = by_agreement(statistics.counts)
            found = taught(passes, permuted(Parameters(prior, confusions), order))
            ordered.append(found)
            likelihoods.append(statistics.log_likelihood)
        best = int(np.argmax(likelihoods))
        if judged is passes and not passes.has_gold:
            return best, ordered, likelihoods[best]
        return best, ordered, passes.sweep(*ordered[best]).log_likelihood


def model_of_factor(factor: Floats, n_labels: Ints, shrinkage: float) -> Parameters:
    """Read prior and confusions off H, (M, K, K).

    Column k of every block A_m D^(1/2) sums to √λ_k: their average, squared, is the prior, and the normalised columns
    are the confusions.  An annotator has about n_m λ_k labels behind column k; K ``shrinkage`` more, spread as the
    crowd answers, keep columns that rest on few labels from extremes.
    """
    H = np.maximum(factor, 0.0)
    K = H.shape[1]
    roots = H.sum(axis=1)
    weight = n_labels / max(n_labels.sum(), 1)
    prior = np.maximum((weight @ roots) ** 2, 1e-9)
    prior /= prior.sum()
    A = np.divide(H, roots[:, None, :], out=np.full(H.shape, 1.0 / K), where=roots[:, None, :] > 0)
    behind = n_labels[:, None] * prior
    crowd = np.einsum("mk,mik->ik", behind, A) + 1e-3
    crowd /= crowd.sum(axis=0)
    A = (behind[:, None, :] * A + K * shrinkage * crowd) / (behind + K * shrinkage)[:, None, :]
    # without shrinkage a probability may be zero: no logarithm must see that
    A = np.maximum(A, 1e-6)
    return Parameters(prior, A / A.sum(axis=1, keepdims=True))


def rotate_groups(U: Floats, graph: tuple[Group, ...], votes: Parameters, *, rotations: int, **options: Any) -> Floats:
    """Rotate the factors of each group of annotators on its own, and put their classes in the order of the votes.

    Between groups that share no item, the data does not determine the rotation.  A group whose pairs do not determine
    its factors (fewer than three annotators, or bipartite) keeps those of the votes.  One rotation is the identity.
    """
    from scipy.optimize import linear_sum_assignment

    K = U.shape[1]
    H = votes.confusions * np.sqrt(votes.prior)
    for group in graph:
        if not group.determined:
            continue
        near = U[group.members].reshape(-1, K)
        aim = H[group.members].reshape(-1, K)
        # the rotation that brings U nearest to the votes' factors (Procrustes) is one of the starts
        left, _, right = np.linalg.svd(near.T @ aim)
        begin = [left @ right] if rotations > 1 else []
        made = rotate(near, starts=rotations, rotations=begin, tol=_ROTATED, **options).H
        if len(graph) > 1:
            made = made[:, linear_sum_assignment(-(aim.T @ made))[1]]
        H[group.members] = made.reshape(-1, K, K)
    return H


def _differ(one: Parameters, other: Parameters) -> bool:
    """Whether two models differ by more than a percent on average."""
    return bool(np.abs(one.confusions - other.confusions).mean() > 0.01)


def _cautions(graph: tuple[Group, ...]) -> tuple[Caution, ...]:
    """Return which annotators' confusions come from the votes, and why."""
    few = sum(group.members.size for group in graph if group.members.size <= 2)
    found = [
        f"{group.members.size} annotators fall into two camps, and only members of different camps share items: "
        "their pairs do not determine their confusions, which are taken from the votes"
        for group in graph
        if group.members.size > 2 and group.bipartite
    ]
    if few:
        found.append(
            f"annotators who have items in common with at most one other: {few}; too few to judge them by, "
            "so their confusions are taken from the votes"
        )
    solved = sum(group.determined for group in graph)
    if solved > 1:
        found.append(f"{solved} groups of annotators that share no item were solved apart and joined through the votes")
    return tuple((sentence, FewLabelsWarning) for sentence in found)
