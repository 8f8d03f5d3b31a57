"""The base of estimators for answers without classes: scikit-learn's protocol over a run."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from consilience.answers.kinds import Kind, Taken
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.fitting.em import Callback
from consilience.methods.base.estimator import CrowdEstimator, is_long_frame
from consilience.runs.consensus import Consensus

__all__ = ["AnswerEstimator"]


class AnswerEstimator(CrowdEstimator):
    """Base of estimators that keep a run: its model, history and annotators.

    Attributes
    ----------
    run_ : Consensus
        The whole result: tables, diagnosis, files.
    model_
        The fitted parameters, with the names of annotators.
    converged_, history_, n_iter_
        Whether the tolerance was met, the objective after every pass, and the number of passes.
    """

    _kind: ClassVar[Kind]
    run_: ClassVar[Any]  # of instances, set by fit; a field would be a parameter
    model_: ClassVar[Any]  # type: ignore[misc]

    max_iter: int = 2000
    tol: float = 1e-4
    callback: Callback | None = None

    def fit(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Self:
        """Learn the annotators from their answers; ``gold`` holds known truths."""
        annotations = self._annotations(X, reset=True)
        gold = true_labels if gold is None else gold
        options = {name: value for name, value in self.get_params().items() if value is not None}
        run = self._aggregate(annotations, Taken(self._kind), gold=gold, **options)
        history = run.run["history"]
        vars(self).update(run_=run, model_=run.model)
        self.converged_, self.history_, self.n_iter_ = run.run["converged"], history, max(len(history), 1)
        self._keep_answers(X, run)
        return self

    def _aggregate(self, annotations: Annotations, taken: Taken, **options: Any) -> Consensus:
        raise NotImplementedError

    def _keep_answers(self, X: Any, run: Any) -> None:
        raise NotImplementedError

    def _fitted(self, X: Any) -> Annotations:
        """Return new answers by annotators that were fitted."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "model_")
        return self._annotations(X, reset=False)

    def _annotations(self, X: Any, *, reset: bool) -> Annotations:
        if isinstance(X, Annotations) or is_long_frame(X):
            return super()._annotations(X, reset=reset)
        from sklearn.utils.validation import validate_data

        matrix = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        return self._from_matrix(matrix, None if reset else self.model_.annotators)

    def _from_matrix(self, matrix: Any, names: Ids | None) -> Annotations:
        """Return the answers in a matrix of items × annotators, whose names are known if the model is fitted."""
        return Annotations.from_matrix(matrix, annotators=names)
