"""Several options as answers: the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.answers.estimator import AnswerEstimator
from consilience.answers.kinds import Taken
from consilience.answers.multi_consensus import aggregate_multi
from consilience.data.annotations import Annotations
from consilience.data.option_sets import truth_sets
from consilience.data.set_labels import as_sets
from consilience.exceptions import DataError
from consilience.methods.base.estimator import is_long_frame
from consilience.models.multi import MultiPosterior
from consilience.runs.multi_run import MultiRun, chosen_sets

__all__ = ["MultiLabelConsensus"]


class MultiLabelConsensus(AnswerEstimator):
    r"""Several options as answers: a decision on every option, with annotator skill shared across options.

    Parameters
    ----------
    shared
        Whether options are those of every item, or belong to single items; by default the data decide.
    max_iter, tol
        Passes over the answers, and the relative change of the log-probability that ends them.
    callback
        Called after every pass; ends the fit by returning True.

    Attributes
    ----------
    labels_, probas_
        The options of every item, joined by ``|``, and the probability of every option, (N, O); ``probas_`` is None if
        options belong to single items.
    classes_
        The options, (O,).
    run_ : MultiRun
        The whole result: tables, expected error, diagnosis.

    Notes
    -----
    Answers are texts with options joined by ``|``.  A blank text in a frame is an answer that ticks nothing; None and
    NaN in a matrix are missing.

    Examples
    --------
    >>> from consilience import MultiLabelConsensus, datasets
    >>> crowd = datasets.simulate_multi(100, 10, 3, seed=1)
    >>> model = MultiLabelConsensus().fit(crowd.annotations)
    >>> str(model.labels_[1]), crowd.truth[1]
    ('o0|o1', 'o0|o1')
    >>> model.predict(crowd.annotations)[1]
    array([1, 1, 0])
    """

    _kind = "multi"

    shared: bool | None = None
    max_iter: int = 1000
    tol: float = 1e-5

    def predict(self, X: Any) -> Any:
        """Return a row for every item with 1 for its options, (N, O); for a frame, the options joined by ``|``."""
        a, found = self._judged(X)
        if not is_long_frame(X):
            return (self._by_option(X, a, found.probability) > 0.5).astype(np.int64)
        ticks, options = found.ticks, self.model_.options
        choice, _, classes = chosen_sets(ticks.first, ticks.option, found.probability, options, self._spelling)
        return self._dress(X, a, np.array([str(name) for name in classes], object)[choice.best])

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every option for every item, (N, O)."""
        a, found = self._judged(X)
        return self._by_option(X, a, found.probability)

    def fit_predict(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Any:
        """Fit, and return what ``predict`` does for the same items, known truths included."""
        self.fit(X, y, gold=gold, true_labels=true_labels)
        if is_long_frame(X):
            return self.labels_
        return (self._by_option(X, self.run_.annotations, self.run_.posterior) > 0.5).astype(np.int64)

    def score(self, X: Any, y: Any = None) -> float:
        """Return F1 of the decisions on options; ``y`` has sets of options, in any form that ``gold`` takes."""
        a = as_sets(self._fitted(X))
        known, item, option, missed = truth_sets(y, a.item_ids, self.model_.options, column=a.origin.item, what="truth")
        said = self.predict_proba(a) > 0.5
        true = np.zeros_like(said)
        true[item, option] = True
        right = float((said & true)[known].sum())
        return 2.0 * right / max(float(said[known].sum() + true[known].sum()) + missed.size, 1.0)

    def _judged(self, X: Any) -> tuple[Annotations, MultiPosterior]:
        a = as_sets(self._fitted(X))
        return a, self.model_.posterior(a)

    def _aggregate(self, annotations: Annotations, taken: Taken, **options: Any) -> MultiRun:
        return aggregate_multi(annotations, taken, **options)

    def _keep_answers(self, X: Any, run: MultiRun) -> None:
        a = run.annotations
        assert a is not None
        classes = np.array([str(name) for name in run.model.classes], object)
        self._spelling = {text: text for text in classes}
        self.labels_ = self._dress(X, a, classes[run.choice.best])
        self.classes_ = np.array(list(run.model.options), object)
        self.probas_ = self._by_option(X, a, run.posterior) if run.model.shared else None

    def _by_option(self, X: Any, a: Any, probability: Any) -> Any:
        if not self.model_.shared:
            raise DataError("options belong to single items, and cannot be columns; run_.options lists them")
        return self._dress(X, a, probability.reshape(a.n_items, -1), self.classes_)
