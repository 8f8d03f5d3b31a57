"""Dawid-Skene from pairwise co-occurrences: complete the block matrix, take its square root, rotate it nonnegative.

    X = H Hᵀ,  H = [A_1; …; A_M] D^(1/2)        (Ibrahim & Fu 2022, eq. (6))

X is known from pairs of annotators, so few labels go far, and H is unique when annotators are diverse enough
(Proposition 1: the sufficiently scattered condition).  The methods differ in how X is completed: not at all
(``symnmf``), along designated annotators (``des-symnmf``, eqs (7)-(8)), or by robust factors (``rob-symnmf``, eqs
(9)-(11)).

S. Ibrahim and X. Fu, "Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization" (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.engine.passes import Labels, Passes, passes_of
from consilience.exceptions import ConvergenceWarning, FewLabelsWarning, ParameterError
from consilience.factor.symnmf import rotate, square_root
from consilience.fitting.em import Callback, ConfusionStep, Parameters, Progress
from consilience.fitting.fit import Caution, Fit, by_agreement, vote_start
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences
from consilience.moments.graph import Group, groups
from consilience.moments.imputation import block_matrix, designated, random_factors, robust

__all__ = ["des_symnmf", "model_of_factor", "rob_symnmf", "symnmf"]

#: Labels added to every cell of the vote start, so that no factor is singular.
_START_SMOOTHING = 0.1
#: Relative change of SymNMF's objective that ends it (App. C).
_ROTATED = 1e-6
#: Models are told apart by the likelihood of so many labels.
_JUDGED = 1 << 21
#: Random models that ``+em`` may go on from too: where a class is rare, pairs alone may miss it.
_RANDOM_MODELS = 8


def rob_symnmf(
    annotations: Labels,
    *,
    starts: int = 4,
    rotations: int = 10,
    reweigh: bool = True,
    count_weights: bool = True,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.25,
    max_iter: int = 1000,
    tol: float = 1e-7,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by robust imputation and shifted-ReLU SymNMF.

    Parameters
    ----------
    annotations
        The labels, or passes over them.
    starts
        Starts of the imputation: the votes first, then random ones.  The model with the largest likelihood is kept.
    rotations
        Rotations that SymNMF starts from; the best by its objective is kept.
    reweigh, count_weights
        See :func:`consilience.moments.imputation.robust`.
    alpha, decay
        See :func:`consilience.factor.symnmf.rotate`.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    max_iter, tol
        Sweeps of the imputation, and the relative change of its objective that ends them.
    random_state
        Decides the random starts and rotations.
    callback
        Told of every sweep; ends the imputation by returning True.
    """
    passes, rng = passes_of(annotations), np.random.default_rng(random_state)
    pairs, graph = _moments(passes)
    votes = vote_start(passes, ConfusionStep(_START_SMOOTHING))
    n = passes.labels_per_annotator
    found, histories, converged = [], [], []

    def tell(sweep: int, objective: float) -> Any:
        return callback(Progress(sweep, max_iter, objective, float("nan"), "completing pairs")) if callback else None

    for s in range(starts):
        start = votes.confusions * np.sqrt(votes.prior) if s == 0 else _random_factors(rng, passes)
        fitted = robust(
            pairs, start, reweigh=reweigh, count_weights=count_weights, max_iter=max_iter, tol=tol, callback=tell
        )
        factor = _rotate_groups(
            fitted.factors, graph, votes, rotations=rotations, alpha=alpha, decay=decay, random_state=rng
        )
        found.append(model_of_factor(factor, n, shrinkage))
        histories.append(fitted.history)
        converged.append(fitted.converged)
    cautions = _cautions(graph)
    details = {"pairs_missing": pairs.missing}
    best, ordered, likelihood = _most_likely(passes, found)
    if tol > 0 and not converged[best]:
        cautions.append((f"the imputation did not converge in {max_iter} sweeps; raise max_iter", ConvergenceWarning))
    return _fit(passes, best, ordered, likelihood, votes, rng, histories[best], converged[best], cautions, details)


def des_symnmf(
    annotations: Labels,
    *,
    through: Sequence[Any] | None = None,
    rotations: int = 20,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.25,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by imputation along designated annotators and shifted-ReLU SymNMF.

    ``through`` names the designated annotators, who have items in common with everybody; by default all pairs that
    qualify serve.  The other parameters are those of :func:`rob_symnmf`.
    """
    passes = passes_of(annotations)
    pairs, graph = _moments(passes)
    codes = None
    if through is not None:
        codes = passes.annotator_ids.codes_of(list(through)).tolist()
        if -1 in codes:
            raise ParameterError(f"there is no annotator {list(through)[codes.index(-1)]!r} to designate")
    completed = designated(pairs, through=codes)
    cautions = _cautions(graph)
    if completed.imputed < 1.0:
        cautions.append(
            (
                f"of the pairs of annotators without common items, {1 - completed.imputed:.0%} could not be imputed "
                "and count as zero; rob-symnmf does not need them",
                FewLabelsWarning,
            )
        )
    details = {"pairs_missing": pairs.missing, "pairs_imputed": completed.imputed}
    options = {"rotations": rotations, "alpha": alpha, "decay": decay, "random_state": random_state}
    return _from_matrix(passes, completed.matrix, graph, cautions, details, shrinkage, options)


def symnmf(
    annotations: Labels,
    *,
    rotations: int = 20,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.25,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by shifted-ReLU SymNMF of the observed blocks alone, zeros standing for the missing ones.

    Biased unless everybody shares items with everybody: there to be compared with.  The parameters are those of
    :func:`rob_symnmf`.
    """
    passes = passes_of(annotations)
    pairs, graph = _moments(passes)
    matrix = block_matrix(pairs).matrix
    options = {"rotations": rotations, "alpha": alpha, "decay": decay, "random_state": random_state}
    details = {"pairs_missing": pairs.missing}
    return _from_matrix(passes, matrix, graph, _cautions(graph), details, shrinkage, options)


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


def _moments(passes: Passes) -> tuple[CoOccurrences, tuple[Group, ...]]:
    pairs = passes.pairs()
    return pairs, groups(pairs)


def _rotate_groups(U: Floats, graph: tuple[Group, ...], votes: Parameters, *, rotations: int, **options: Any) -> Floats:
    """Rotate the factors of each group of annotators on its own, and put their classes in the order of the votes.

    Groups that share no item have square roots that differ by a rotation which nothing in the data shows.  A group
    whose pairs do not determine its factors (fewer than three annotators, or bipartite) keeps the votes'.
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
        made = rotate(near, starts=rotations, rotations=[left @ right], tol=_ROTATED, **options).H
        if len(graph) > 1:
            made = made[:, linear_sum_assignment(-(aim.T @ made))[1]]
        H[group.members] = made.reshape(-1, K, K)
    return H


def _from_matrix(
    passes: Passes,
    matrix: Floats,
    graph: tuple[Group, ...],
    cautions: list[Caution],
    details: dict[str, Any],
    shrinkage: float,
    options: dict[str, Any],
) -> Fit:
    K = passes.n_classes
    rng = np.random.default_rng(options["random_state"])
    votes = vote_start(passes, ConfusionStep(_START_SMOOTHING))
    U = np.zeros((passes.n_annotators, K, K))
    blocks = matrix.reshape(passes.n_annotators, K, passes.n_annotators, K)
    for group in graph:
        if group.determined:
            part = blocks[group.members][:, :, group.members]
            side = group.members.size * K
            U[group.members] = square_root(part.reshape(side, side), K).reshape(-1, K, K)
    factor = _rotate_groups(U, graph, votes, **{**options, "random_state": rng})
    found = model_of_factor(factor, passes.labels_per_annotator, shrinkage)
    best, ordered, likelihood = _most_likely(passes, [found])
    return _fit(passes, best, ordered, likelihood, votes, rng, [], True, cautions, details)


def _most_likely(passes: Passes, found: Sequence[Parameters]) -> tuple[int, list[Parameters], float]:
    """Order the classes of every model by agreement; give the place of the one that makes the labels most probable.

    Where there are many items, a sample of them is enough to tell.  The log-likelihood that is given is that of all.
    """
    step = passes.n_labels // _JUDGED
    judged = passes if step <= 1 else passes_of(passes.sample(step))
    ordered, likelihoods = [], []
    for parameters in found:
        statistics = judged.sweep(*parameters, gold=False)
        order = by_agreement(statistics)
        ordered.append(Parameters(parameters.prior[order], np.ascontiguousarray(parameters.confusions[:, :, order])))
        likelihoods.append(statistics.log_likelihood)
    best = int(np.argmax(likelihoods))
    if judged is passes and not passes.has_gold:
        return best, ordered, likelihoods[best]
    return best, ordered, passes.sweep(*ordered[best]).log_likelihood


def _fit(
    passes: Passes,
    best: int,
    found: list[Parameters],
    log_likelihood: float,
    votes: Parameters,
    rng: np.random.Generator,
    history: list[float],
    converged: bool,
    cautions: list[Caution],
    details: dict[str, Any],
) -> Fit:
    """Make a fit of the best model, with the others, the votes and some random ones for ``+em`` to consider."""
    K = passes.n_classes
    others = [votes]
    for parameters in found:
        if all(_differ(parameters, other) for other in (found[best], *others)):
            others.append(parameters)
    flat = np.full(K, 1.0 / K)
    others += [Parameters(flat, _random_factors(rng, passes) * np.sqrt(K)) for _ in range(_RANDOM_MODELS)]
    model = DawidSkene(*found[best], passes.class_ids, passes.annotator_ids)
    return Fit(
        model,
        passes.posterior(model),
        log_likelihood,
        converged,
        history,
        tuple(cautions),
        candidates=tuple(others),
        details=details,
    )


def _random_factors(rng: np.random.Generator, passes: Passes) -> Floats:
    """Draw factors that depend on what was said, not on the order or the names of annotators and classes."""
    said = passes.survey.said
    classes = np.argsort(said.sum(axis=0), kind="stable")
    annotators = np.lexsort((*said[:, classes].T, said.sum(axis=1)))
    drawn = random_factors(rng, *said.shape)
    made = np.empty_like(drawn)
    made[np.ix_(annotators, classes, classes)] = drawn
    return made


def _differ(one: Parameters, other: Parameters) -> bool:
    """Tell whether two models differ by more than a few percent somewhere."""
    return bool(np.abs(one.confusions - other.confusions).mean() > 0.01)


def _cautions(graph: tuple[Group, ...]) -> list[Caution]:
    """Say which annotators' confusions come from the votes, and why."""
    cautions: list[Caution] = []
    few = 0
    for group in graph:
        if group.members.size <= 2:
            few += group.members.size
        elif group.bipartite:
            cautions.append(
                (
                    f"{group.members.size} annotators fall into two camps, and only members of different camps share "
                    "items: their pairs do not determine their confusions, which are taken from the votes",
                    FewLabelsWarning,
                )
            )
    if few:
        cautions.append(
            (
                f"annotators who have items in common with at most one other: {few}; too few to judge them by, "
                "so their confusions are taken from the votes",
                FewLabelsWarning,
            )
        )
    solved = sum(g.determined for g in graph)
    if solved > 1:
        cautions.append(
            (
                f"{solved} groups of annotators that share no item were solved apart and joined through the votes",
                FewLabelsWarning,
            )
        )
    return cautions
