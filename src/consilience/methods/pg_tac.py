"""PG-TAC: the truth as one more annotator in a low-rank completion of the labels.

Labels are a binary tensor of items, annotators and classes, missing where nobody labelled.  A layer is added for the
truth, filled with the shares of votes (corrected by gold); the tensor is completed at low rank, and the labels are read
off the completed layer: the answers of an annotator who agrees with the crowd, given the low-rank structure of all
answers.

Y. Zhou and J. He, "Crowdsourcing via tensor augmentation and completion", IJCAI 2016.

This is a reconstruction from the paper's abstract: augmentation by a truth layer and completion at low rank are the
paper's; the layer's content, solver and penalty are ours.  The solver is :mod:`consilience.factor.completion` (the
unfolding along items, rank K, started from the votes), the penalty is in units of

    L / √(N M),

L labels on N items by M annotators: the order of a singular value of the known entries when one direction explains
them all.

Completed entries are not probabilities; :func:`probabilities` converts them with one parameter.
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.passes import passes_of
from consilience.exceptions import ConvergenceWarning
from consilience.factor.completion import Completed, LabelTensor, complete
from consilience.fitting.em import Callback, ConfusionStep, Progress
from consilience.fitting.fit import Caution, Fit, crowd_confusion
from consilience.fitting.known import by_gold, start_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.votes import vote_statistics
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.models.dawid_skene import DawidSkene

__all__ = ["METHOD", "TensorAugmentation", "completed_labels", "fit_of_scores", "pg_tac", "probabilities"]

#: Shrinkage of the Dawid-Skene model by which scores are turned into probabilities.
_SHRINKAGE = 0.25
#: Scores are rounded to multiples of this, so that symmetric data gives exact ties.
_GRAIN = 2.0**-36
#: Largest log-odds between two classes whose scores differ as much as any do.
_SHARPEST = 200.0


class TensorAugmentation(IterativeEstimator):
    """PG-TAC: the truth as one more annotator in a low-rank completion of the labels (Zhou & He 2016).

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    penalty
        Weight of the nuclear norm, relative to the size of the data.  The defaults of ``penalty`` and ``tol`` were
        chosen on public crowds with known truth; from 0.03 to 0.1 the errors there differ by about a point.
    max_iter, tol
        Sweeps, and the relative fall of the objective that ends them.  Sparse crowds are fitted best by a few sweeps:
        with a tolerance much below the default, the factors fit noise.
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every sweep; ends the fit by returning True.
    """

    _method = "pg-tac"

    penalty: float = 0.05
    max_iter: int = 100
    tol: float = 1e-3


def pg_tac(
    annotations: Annotations,
    *,
    penalty: float = 0.05,
    max_iter: int = 100,
    tol: float = 1e-3,
    callback: Callback | None = None,
) -> Fit:
    """Fit by completing the labels together with a layer for the truth; see :class:`TensorAugmentation`."""
    votes = start_posterior(annotations)
    found = completed_labels(annotations, votes, penalty, max_iter, tol, callback, layer=votes)
    # X[n, 0, k] = Σ_r A[n, r] C[k, r]
    return fit_of_scores(annotations, found.items @ found.layer.T, found, max_iter, tol)


METHOD = Method("pg-tac", pg_tac, "TensorAugmentation", "the truth as one more annotator in a low-rank completion")


def completed_labels(
    annotations: Annotations,
    start: Floats,
    penalty: float,
    max_iter: int,
    tol: float,
    callback: Callback | None,
    layer: Floats | None = None,
) -> Completed:
    """Complete the labels of a crowd, with ``penalty`` in units of L / √(N M)."""
    a = annotations
    items = max(int(np.count_nonzero(a.labels_per_item)), 1)
    annotators = max(int(np.count_nonzero(a.labels_per_annotator)), 1)
    size = max(a.n_labels, 1) / np.sqrt(items * annotators)

    def tell(sweep: int, objective: float, fall: float) -> bool:
        return bool(callback and callback(Progress(sweep, max_iter, objective, fall)))

    tensor = LabelTensor(a.indptr, a.annotator, a.label, a.n_annotators, a.n_classes)
    return complete(tensor, start, penalty=penalty * size, layer=layer, max_iter=max_iter, tol=tol, callback=tell)


def fit_of_scores(annotations: Annotations, scores: Floats, found: Completed, max_iter: int, tol: float) -> Fit:
    """Return the fit of scores, (N, K): the class with the largest is the label."""
    posterior, hint = probabilities(annotations, scores)
    cautions: tuple[Caution, ...] = ()
    if tol > 0 and not found.converged:
        sentence = f"the completion did not converge in {max_iter} sweeps; raise max_iter or tol"
        cautions = ((sentence, ConvergenceWarning),)
    return Fit.from_posterior(
        annotations, posterior, converged=found.converged, history=found.history, cautions=cautions, hint=hint
    )


def probabilities(annotations: Annotations, scores: Floats) -> tuple[Floats, Floats]:
    """Return probabilities in the order of the scores, (N, K), and a second opinion that breaks ties.

    The probabilities are softmax(β score).  β comes from a Dawid-Skene model: one M-step, with shrinkage, from the
    labels that the scores choose.  Its posterior is the second opinion p, and β maximises Σ_n Σ_k p[n, k] log softmax(β
    score)[n, k].  If gold shows that the scores have the classes in another order, they are put in order.
    """
    a = annotations
    scores = np.rint(scores / _GRAIN) * _GRAIN
    chosen = (scores == scores.max(axis=1, keepdims=True)).astype(np.float64)
    chosen /= chosen.sum(axis=1, keepdims=True)
    statistics = vote_statistics(a.indptr, a.annotator, a.label, chosen, a.n_annotators)
    step = ConfusionStep(_SHRINKAGE * a.n_classes * crowd_confusion(a))
    parameters = step(statistics)
    order = by_gold(passes_of(a), parameters)
    scores = np.ascontiguousarray(scores[:, order])
    second = DawidSkene(*parameters, a.class_ids, a.annotator_ids).permute(order).posterior(a)
    labelled = a.labels_per_item > 0
    return _softmax(_temperature(scores[labelled], second[labelled]) * scores), second


def _temperature(scores: Floats, target: Floats) -> float:
    """Return the β > 0 at which softmax(β score) has the expected score of the target.

    There the derivative of Σ target · log softmax(β score) by β is zero.
    """
    from scipy.optimize import brentq

    spread = float(np.ptp(scores, axis=1).max(initial=0.0))
    if not spread:
        return 1.0
    aim = float(np.vdot(target, scores))

    def excess(log_beta: float) -> float:
        return float(np.vdot(_softmax(np.exp(log_beta) * scores), scores)) - aim

    low, high = np.log(1e-3 / spread), np.log(_SHARPEST / spread)
    # the expected score rises with β; if the aim is out of range, the nearer end is the best
    if excess(low) >= 0:
        return float(np.exp(low))
    if excess(high) <= 0:
        return float(np.exp(high))
    return float(np.exp(brentq(excess, low, high, xtol=1e-9)))


def _softmax(logits: Floats) -> Floats:
    odds: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return odds
