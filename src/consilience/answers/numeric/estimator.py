"""Numbers as answers: the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from consilience.answers.estimator import AnswerEstimator
from consilience.answers.kinds import Taken
from consilience.answers.numeric.consensus import aggregate_numeric
from consilience.answers.numeric.kind import numbers_of
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import is_long_frame
from consilience.runs.numeric_run import NumericRun, values_by_item

__all__ = ["NumericConsensus"]


class NumericConsensus(AnswerEstimator):
    r"""Numbers as answers: annotators with bias, scale and heavy-tailed noise.

    .. math:: y = \mu + b_m + s_m (t_n - \mu) + e

    Parameters
    ----------
    max_iter, tol
        Passes over the answers for each model, and the largest change of a value, in standard deviations of all
        answers, that ends them.
    callback
        Called after every pass; ends the fit by returning True.

    Attributes
    ----------
    values_, intervals_
        The value of every item, and its 90 % interval (N, 2); NaN without answers.
    bias_, scale_, noise_
        Of every annotator, (M,).
    run_ : NumericRun
        The whole result: slips, weights of answers, expected error, diagnosis.

    Notes
    -----
    In a matrix, only NaN is missing: -1 is a number.  ``values_`` are averages of two models, mean and median;
    ``predict`` judges items, new or old, by bias, scale and noise alone, and shrinks them towards the mean.

    Examples
    --------
    >>> from consilience import NumericConsensus
    >>> answers = [[10, 12, 11], [20, 22, 21], [30, 31, 30], [41, 42, 40], [50, 52, 51], [15, 17, 16]]
    >>> NumericConsensus().fit(answers).values_.round()
    array([11., 21., 30., 41., 51., 16.])
    """

    _kind = "numeric"

    def predict(self, X: Any) -> Any:
        """Return the value of every item by the annotators that were fitted; an unknown one counts as average."""
        a = self._fitted(X)
        model = self.model_
        code = model.annotators.codes_of(a.annotator_ids.to_arrow())[a.annotator]
        usual = float(np.sqrt((model.noise**2).mean()))
        bias, scale, noise = (
            np.append(each, other)[code]
            for each, other in ((model.bias, 0.0), (model.scale, 1.0), (model.noise, usual))
        )
        # t = μ + Σ s (y - μ - b) / σ²  /  (1 / τ² + Σ s² / σ²)
        centre, item = model.centre, a.item_of_label()
        precision = scale / np.maximum(noise, 1e-9 * self.spread_) ** 2
        y = numbers_of(a.class_ids, "labels")[a.label]
        total = 1.0 / self.spread_**2 + np.bincount(item, precision * scale, a.n_items)
        value = centre + np.bincount(item, precision * (y - centre - bias), a.n_items) / total
        return self._dress(X, a, self._rows(X, a, np.where(a.labels_per_item > 0, value, np.nan)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return R² of the predicted values, as regressors of scikit-learn do."""
        a = self._fitted(X)
        found = np.asarray(self.predict(X), float) if isinstance(X, Annotations) else self._plain(self.predict(X))
        truth = np.asarray(y, float) if np.ndim(y) == 1 and len(y) == found.size else None
        truth = values_by_item(y, a.item_ids, a.origin.item, "truth") if truth is None else truth
        judged = np.isfinite(truth) & np.isfinite(found)
        away, spread = ((truth - other)[judged] for other in (found, truth[judged].mean()))
        return 1.0 - float((away**2).sum()) / max(float((spread**2).sum()), 1e-300)

    def fit_predict(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Any:
        """Fit, and return the values of the same items."""
        return self.fit(X, y, gold=gold, true_labels=true_labels).values_

    @property
    def predict_proba(self) -> Any:
        """Absent: numbers have intervals instead of probabilities."""
        raise AttributeError("NumericConsensus has no probabilities; intervals_ and run_ say how sure values are")

    fit_predict_proba = predict_proba

    def _aggregate(self, annotations: Annotations, taken: Taken, **options: Any) -> NumericRun:
        return aggregate_numeric(annotations, taken, **options)

    def _keep_answers(self, X: Any, run: NumericRun) -> None:
        a = run.annotations
        assert a is not None
        self.values_ = self._dress(X, a, self._rows(X, a, run.value))
        self.intervals_ = np.stack([self._rows(X, a, each) for each in (run.low, run.high)], axis=1)
        self.bias_, self.scale_, self.noise_ = run.model.bias, run.model.scale, run.model.noise
        known = run.value[np.isfinite(run.value)]
        self.spread_ = max(float(known.std()) if known.size else 0.0, 1e-12)

    def _plain(self, found: Any) -> Floats:
        return np.asarray(found["label"] if hasattr(found, "columns") else found, float)

    def _from_matrix(self, matrix: Any, names: Ids | None) -> Annotations:
        values = np.asarray(matrix, float)
        item, annotator = np.nonzero(~np.isnan(values))
        people = Ids(pa.array(np.arange(values.shape[1]))) if names is None else names
        who = people.to_arrow().take(pa.array(annotator))
        made = Annotations.from_columns(pa.array(item), who, pa.array(values[item, annotator]))
        return made.recode(people, made.class_ids)

    def _rows(self, X: Any, a: Annotations, values: Floats) -> Floats:
        """Return values for every row of a matrix; rows without answers are no items."""
        if isinstance(X, Annotations) or is_long_frame(X):
            return values
        found = np.full(len(X), np.nan)
        found[np.asarray(a.item_ids.to_arrow(), np.int64)] = values
        return found
