"""Labels that are probably wrong: contradicted by the features and by the other annotators.

Annotators and classifiers are fitted together (:mod:`consilience.features.joint`).  A label i of item n is a candidate
if a class other than i is most probable by the features, g_n, and by the other labels of n (unless it has none), and if
the probability of the label given everything, q_n(i), is below one half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames
from consilience.exceptions import ParameterError
from consilience.features import constants
from consilience.features.consensus import gathered
from consilience.features.cross_fitting import draw_folds
from consilience.features.joint import doubted_votes, fit_joint
from consilience.io.coercion import as_annotations
from consilience.validation import check_seed, numpy_seed

__all__ = ["label_errors"]


def label_errors(
    data: Any, *, probabilities: Any = None, features: Any = None, classifier: Any = None, seed: int | None = 0
) -> Any:
    """Return the labels that features and other annotators contradict, the least probable first.

    Parameters
    ----------
    data
        Annotations, a long frame, a matrix of items × annotators, or the path of a file.
    probabilities, features, classifier
        As for :func:`consilience.aggregate`; at least one of the first two.
    seed
        Seed of the folds.

    Returns
    -------
    A frame of the kind that the data came in, with a row for each candidate: item, annotator, label, suggested (the
    most probable class), probability (that the label is right, given all there is), by_features (its probability by
    the features), and others (how many annotators labelled the item besides).
    """
    check_seed(seed)
    if probabilities is None and features is None:
        raise ParameterError("label errors are found by probabilities=… of a classifier, or by features=…; give one")
    a, members_of, fitted = gathered(as_annotations(data), probabilities, features, classifier)
    folds = draw_folds(a.item_ids, min(constants.FOLDS, a.n_items), numpy_seed(seed))
    rounds = constants.ROUNDS if fitted else 1
    joint = fit_joint(a, members_of(a, folds), doubted_votes(a), rounds=rounds)
    item, said = a.item_of_label(), a.label.astype(np.int64)
    # Π over the other labels of A  =  q / g / A of this label
    own = np.maximum(joint.model.confusions[a.annotator, said], 1e-9)
    others = joint.posterior[item] / np.maximum(joint.opinion[item], 1e-12) / own
    n_others = a.labels_per_item[item] - 1
    probability = joint.posterior[item, said]
    contradicted = (joint.opinion[item].argmax(axis=1) != said) & (probability < 0.5)
    contradicted &= (others.argmax(axis=1) != said) | (n_others == 0)
    rows = np.flatnonzero(contradicted)
    rows = rows[np.argsort(probability[rows], kind="stable")]
    at, classes, origin = item[rows], a.class_ids.to_arrow(), a.origin
    columns = {
        origin.item: a.item_ids.to_arrow().take(pa.array(at)),
        origin.annotator: a.annotator_ids.to_arrow().take(pa.array(a.annotator[rows])),
        origin.label: classes.take(pa.array(said[rows])),
        "suggested": classes.take(pa.array(joint.posterior[at].argmax(axis=1))),
        "probability": pa.array(probability[rows]),
        "by_features": pa.array(joint.opinion[at, said[rows]]),
        "others": pa.array(n_others[rows]),
    }
    return frames.make(columns, origin.frame)
