"""Answers whose options differ from item to item, by EM: the model of :mod:`consilience.models.open_answers`.

The objective is the log-probability of which labels of an item are equal, plus the log-density of the priors:

* abilities u_m ~ N(μ, 1): annotators with few labels are near the crowd's μ, which is learned;
* μ ~ N(logit 0.65, 1);
* α: ten pairs of wrong answers, of which a third agree.

The E-step weighs the candidates of every item.  In the M-step, each u_m is the maximum of a concave function, found by
Newton's method; μ is a mean; α maximises a sum over three histograms, in one dimension.  Nothing has the size K × K or
items × answers: the cost is linear in the number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.ascent import Ascent, EMModel
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, Fit, unconverged, vote_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.open_answers import OpenSums, UrnTables
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.constants import EASE_SPREAD, OPEN_ABILITY, OPEN_AGREE, OPEN_PAIRS
from consilience.methods.base.estimator import SeededEstimator
from consilience.methods.base.method import Method
from consilience.models.dawid_skene import DawidSkene
from consilience.models.open_answers import OpenModel, OpenPass, OpenPosterior, urn_tables
from consilience.runs.open_run import choose_answers
from consilience.validation import check_parameters

__all__ = ["METHOD", "OpenAnswers", "OpenFit", "fit_open", "open_answers"]

#: Bounds of α: wrong answers agree in half of all cases at most, and hardly ever.
_LEAST, _MOST = 1.0, 1e4
_NEWTON_STEPS = 8
#: Limit on the answers of an estimator with confusion matrices.
_MOST_CLASSES = 64


class OpenAnswers(SeededEstimator):
    r"""Answers whose options differ from item to item: an accuracy for each annotator, and popular wrong answers.

    .. math:: \Pr(m \text{ is right about } n) = \frac{1}{1 + \exp(-u_m - \sigma x_n)}, \qquad x_n \sim N(0, 1)

    For multiple choice where letters mean nothing across questions, and for free text.  With more than 64 different
    answers, ``model_`` is the same as ``open_model_``, and there are no ``prior_`` and ``confusions_``.

    Parameters
    ----------
    options
        Number of options of each item, if known; None for free text and where it differs.
    spread
        Standard deviation σ of how easy items are.
    max_iter, tol
        Passes over the data, and the relative change of the objective that ends them (0: run all).
    random_state
        Not used.
    callback
        Called after every pass; ends the fit by returning True.

    Attributes
    ----------
    open_model_ : OpenModel
        Abilities, accuracies and how often wrong answers agree.

    Examples
    --------
    >>> from consilience import OpenAnswers
    >>> OpenAnswers().fit_predict([[7, 7, 5], [12, 12, 12], [30, 31, 31]])
    array([ 7, 12, 31])
    """

    _method = "open-answers"
    _new_answers = True

    options: int | None = None
    spread: float = EASE_SPREAD
    max_iter: int = 1000
    tol: float = 1e-7

    def fit(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Self:
        """Learn the annotators from their answers; the parameters are those of all estimators."""
        annotations = self._taught(X, gold, true_labels)
        if annotations.n_classes <= _MOST_CLASSES:
            return super().fit(X, y, gold=gold, true_labels=true_labels)
        options = self._options()
        check_parameters(options)
        found = fit_open(annotations, **options)
        warn_of([*cautions_of(annotations), *found.cautions])
        model: Any = found.model
        self.model_ = self.open_model_ = model
        self.classes_ = annotations.classes
        self.converged_, self.history_, self.n_iter_ = found.converged, found.history, max(len(found.history), 1)
        self.log_likelihood_, self.details_ = found.log_likelihood, dict(found.details)
        self._predictor = _Predictor(found.model)
        self.probas_ = self._dress(X, annotations, _among_classes(found.posterior, annotations.n_classes))
        self.labels_ = self._dress(X, annotations, self.classes_[choose_answers(found.posterior).best])
        return self

    def predict(self, X: Any) -> Any:
        """Return the most probable answer to every item; its answers may be new."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "model_")
        annotations = self._annotations(X, reset=False)
        best = choose_answers(self.open_model_.posterior(annotations)).best
        return self._dress(X, annotations, annotations.classes[best])

    def _keep(self, X: Any, annotations: Annotations, fit: Fit) -> None:
        super()._keep(X, annotations, fit)
        self.open_model_ = getattr(fit.predictor, "model", None)


def open_answers(
    annotations: Annotations,
    *,
    options: int | None = None,
    spread: float = EASE_SPREAD,
    max_iter: int = 1000,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> Fit:
    """Fit by EM, with the answers as classes; :class:`OpenAnswers` documents the parameters."""
    a = annotations
    found = fit_open(a, options=options, spread=spread, max_iter=max_iter, tol=tol, callback=callback)
    K = a.n_classes
    right = found.model.accuracy[:, None, None]
    confusions = np.where(np.eye(K, dtype=bool), right, (1.0 - right) / max(K - 1, 1)) if K > 1 else np.ones_like(right)
    return Fit(
        DawidSkene(np.full(K, 1.0 / K), confusions, a.class_ids, a.annotator_ids),
        _among_classes(found.posterior, K),
        found.log_likelihood,
        found.converged,
        found.history,
        found.cautions,
        hint=vote_posterior(a),
        predictor=_Predictor(found.model),
        details=found.details,
    )


METHOD = Method("open-answers", open_answers, "OpenAnswers", "an accuracy for every annotator; answers differ by item")


@dataclass(frozen=True)
class _Predictor:
    """Probabilities and vote shares of any items among the classes that were fitted."""

    model: OpenModel

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        coded = annotations.recode(self.model.annotators, self.model.classes)
        return _among_classes(self.model.posterior(coded), coded.n_classes), vote_posterior(coded)


def _among_classes(found: OpenPosterior, K: int) -> Floats:
    """Return the posterior as a table (N, K); what no candidate has is spread evenly over the other classes."""
    N, c = found.none.size, found.candidates
    others = K - np.diff(c.first)
    table = np.repeat(np.where(others > 0, found.none / np.maximum(others, 1), 0.0)[:, None], K, axis=1)
    table[c.item, c.answer] = found.probability
    table /= table.sum(axis=1, keepdims=True)
    return table.reshape(N, K)


# ---- the fit ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenFit:
    """A fitted model with the candidates of every item and their probabilities."""

    model: OpenModel
    posterior: OpenPosterior
    right: Floats  #: expected right labels of each annotator, (M,)
    log_likelihood: float
    converged: bool
    history: list[float]
    cautions: tuple[Caution, ...]

    @property
    def details(self) -> dict[str, float]:
        """Figures for the summary of a run."""
        return {
            "concentration": self.model.concentration,
            "wrong_answers_agree": self.model.same_error,
            "chance_level": self.model.chance,
        }


def fit_open(
    annotations: Annotations,
    *,
    options: int | None = None,
    spread: float = EASE_SPREAD,
    max_iter: int = 1000,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> OpenFit:
    """Fit as :func:`open_answers` does, without a table of answers."""
    a = annotations
    model = _Model(a, spread, options)
    start = OpenPoint(np.full(a.n_annotators, OPEN_ABILITY), OPEN_ABILITY, 1.0 / OPEN_AGREE - 1.0)
    if a.gold is not None:  # known answers decide where the ascent begins: the crowd alone may be wrong together
        known = _Model(a.select_items(a.gold >= 0), spread, options)
        start = known.m_step(known.e_step(start)[0])
    end = Ascent(model, start, labels=a.n_labels).run(max_iter=max_iter, tol=tol, callback=callback)
    found = OpenModel(*end.at, spread, options, model.run_pass.most_answers, a.class_ids, a.annotator_ids)
    right = model.e_step(end.at)[0].of_labels.right
    cautions = unconverged(end.converged, "EM", f"{len(end.history)} passes", tol)
    return OpenFit(found, found.posterior(a), right, end.log_likelihood, end.converged, end.history, cautions)


class OpenPoint(NamedTuple):
    """Abilities u (M,), their mean μ in the crowd, and the concentration α of wrong answers."""

    ability: Floats
    crowd: float
    concentration: float


class _Sums(NamedTuple):
    at: OpenPoint  #: where they were computed: Newton's method starts there
    of_labels: OpenSums


class _Model(EMModel[OpenPoint, _Sums]):
    """The labels of one set of items, as the ascent sees them."""

    def __init__(self, annotations: Annotations, spread: float, options: int | None) -> None:
        self.run_pass = OpenPass(annotations, spread, options)
        self.active = annotations.labels_per_annotator > 0

    def e_step(self, at: OpenPoint) -> tuple[_Sums, float]:
        sums = self.run_pass(at.ability, at.concentration)[2]
        return _Sums(at, sums), sums.log_likelihood

    def m_step(self, sums: _Sums) -> OpenPoint:
        at, (right, at_node, urns, _) = sums
        u = at.ability
        for _ in range(_NEWTON_STEPS):
            # d/du  Σ_x n(x) log(1 - p(x)) + right · u - (u - μ)² / 2,   p(x) = 1 / (1 + exp(-u - σx))
            p = 1.0 / (1.0 + np.exp(-u[:, None] - self.run_pass.nodes))
            slope = right - (at_node * p).sum(axis=1) - (u - at.crowd)
            bend = (at_node * p * (1.0 - p)).sum(axis=1) + 1.0
            u = u + np.clip(slope / bend, -1.0, 1.0)
        n = int(self.active.sum())
        crowd = (float(u[self.active].sum()) + OPEN_ABILITY) / (n + 1)
        return OpenPoint(np.where(self.active, u, crowd), crowd, self._concentration(at.concentration, urns))

    def _concentration(self, now: float, used: UrnTables) -> float:
        from scipy.optimize import minimize_scalar

        def value(log_alpha: float) -> float:
            tables = urn_tables(float(np.exp(log_alpha)), self.run_pass.options, self.run_pass.most)
            expected = sum(float((n * np.where(n > 0, t, 0.0)).sum()) for n, t in zip(used, tables, strict=True))
            return -expected - _pairs(float(np.exp(log_alpha)))

        best = minimize_scalar(value, bounds=(np.log(_LEAST), np.log(_MOST)), method="bounded")
        return float(np.exp(best.x)) if best.fun < value(float(np.log(now))) else now

    def penalty(self, at: OpenPoint) -> float:
        spread = np.sum((at.ability[self.active] - at.crowd) ** 2) + (at.crowd - OPEN_ABILITY) ** 2
        return -0.5 * float(spread) + _pairs(at.concentration)


def _pairs(alpha: float) -> float:
    """Return the log-probability of the pairs of wrong answers in the prior: each agrees with 1 / (1 + α)."""
    return OPEN_PAIRS * ((1.0 - OPEN_AGREE) * float(np.log(alpha)) - float(np.log1p(alpha)))
