"""Learning curves: the error of consensus and trained model against the number of labels per item."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.data import frames
from consilience.data.annotations import Annotations
from consilience.exceptions import DataError, FewLabelsWarning, ParameterError
from consilience.features import constants
from consilience.features.consensus import aggregate_with_classifiers
from consilience.features.cross_fitting import cross_fit, draw_folds
from consilience.features.inputs import feature_rows
from consilience.features.members import default_classifier
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Codes, Ints
from consilience.methods.base.running import run_method
from consilience.validation import check_seed, whole

__all__ = ["label_curves"]

_CURVES = ("consensus", "consensus_with_features", "model", "model_with_features")


def label_curves(
    data: Any,
    features: Any,
    truth: Any,
    *,
    labels_per_item: Sequence[int] = (1, 2, 3, 5),
    classifier: Any = None,
    draws: int = 3,
    seed: int | None = 0,
) -> Any:
    """Return errors against the number of labels per item, with and without features.

    Parameters
    ----------
    data
        Annotations, a long frame, a matrix of items × annotators, or the path of a file.
    features, classifier
        As for :func:`consilience.aggregate`.
    truth
        The true classes, in any form that :meth:`consilience.Annotations.with_gold` takes.
    labels_per_item
        How many labels to draw for each item; an item with fewer keeps all.
    draws
        How often labels are drawn; the errors are means.
    seed
        Seed of all draws.

    Returns
    -------
    A frame with a row for each number: labels_per_item, consensus, consensus_with_features, model, model_with_features.
    Errors are in percent.  The model is the classifier, trained with the consensus (or the consensus with features) of
    other items: its errors are on items that it has not seen.
    """
    check_seed(seed)
    whole("draws", draws)
    if not np.size(labels_per_item) or np.ndim(labels_per_item) != 1:
        raise ParameterError(f"labels_per_item must be whole numbers, such as (1, 2, 3), not {labels_per_item!r}")
    for n in labels_per_item:
        whole("labels_per_item", n)
    a, X = feature_rows(features, as_annotations(data))
    codes = a.codes_of_truth(truth, strict=False)
    if not ((codes >= 0) & (a.labels_per_item > 0)).any():
        raise DataError("no item has both a truth and a label")
    model = default_classifier(X) if classifier is None else classifier
    rng = np.random.default_rng(seed)
    table: dict[str, list[float]] = {"labels_per_item": [float(n) for n in labels_per_item]}
    for n in labels_per_item:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewLabelsWarning)  # the draws have few labels, not the data
            drawn = [_errors(_thinned(a, n, rng), X, codes, model, classifier, seed) for _ in range(draws)]
        for name, error in zip(_CURVES, np.mean(drawn, axis=0), strict=True):
            table.setdefault(name, []).append(float(error))
    return frames.make(table, a.origin.frame)


def _errors(a: Annotations, X: Any, truth: Codes, model: Any, classifier: Any, seed: int | None) -> list[float]:
    """Return the errors of consensus and model, each without and with features."""
    labelled = a.labels_per_item > 0
    judged = (truth >= 0) & labelled
    folds = draw_folds(a.item_ids, constants.FOLDS, seed)
    runs = run_method(a, "auto", seed=seed), aggregate_with_classifiers(a, features=X, classifier=classifier, seed=seed)
    found = [run.posterior for run in runs]
    found += [cross_fit(model, X, run.posterior, folds, labelled) for run in runs]
    return [100.0 * float(np.mean(p.argmax(axis=1)[judged] != truth[judged])) for p in found]


def _thinned(a: Annotations, n: int, rng: np.random.Generator) -> Annotations:
    """Return at most n labels of every item, drawn at random."""
    item = a.item_of_label()
    order = np.lexsort((rng.random(a.n_labels), item))
    place = np.arange(a.n_labels) - a.indptr[item]
    kept: Ints = np.sort(order[place < n])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(a.labels_per_item, n))])
    names: Any = {"items": a.item_ids, "annotators": a.annotator_ids, "classes": a.class_ids, "origin": a.origin}
    return Annotations(indptr, a.annotator[kept], a.label[kept], **names)
