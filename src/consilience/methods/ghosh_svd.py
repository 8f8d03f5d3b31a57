"""Ghosh, Kale and McAfee's singular vector: the labels ±1, items × annotators, are nearly of rank one.

    E O = y wᵀ (where somebody labelled),   O(n, m) = ±1 or 0,   y(n) = ±1 the truth,   w(m) = 2 Pr(m is right) - 1

so the leading left singular vector has the signs of the truth; it is O v, the vote weighted by the right singular
vector v (Ghosh, Kale & McAfee 2011).

======== ======================================== ===============
symbol   meaning                                  shape
======== ======================================== ===============
O        ``signs``: labels of two classes as ±1   (N, M), sparse
v, w     ``weights`` of the annotators            (M,)
d        labels of each item, of each annotator   (N,), (M,)
======== ======================================== ===============

In the paper everybody labels each item with the same probability.  Where some label far more than others, the leading
vector of O is theirs alone: on RTE it has three of 164 annotators, and 49 % of the labels are wrong.  So O is
normalised by its row and column sums,

    D_items^(-1/2) O D_annotators^(-1/2),        w = D_annotators^(-1/2) v,

with a little added to D_annotators, or else a few annotators with few labels may dominate (``normalize=False`` is the
paper's method).  The model does not know that an annotator may prefer one class, and loses to majority voting on
Bluebird.

A. Ghosh, S. Kale and P. McAfee, "Who moderates the moderators? Crowdsourcing abuse detection in user-generated
content", EC 2011.
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback, Progress
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
from consilience.kernels.grouping import components
from consilience.methods.base.estimator import RefinableEstimator
from consilience.methods.base.method import TWO_CLASSES, Method
from consilience.methods.base.weighted_votes import leading_eigenvector, oriented, steadied, weighted_vote

__all__ = ["METHOD", "GhoshSVD", "ghosh_svd"]


class GhoshSVD(RefinableEstimator):
    """Votes weighted by the leading singular vector of the labels (Ghosh, Kale & McAfee 2011); two classes.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    normalize
        Normalise by the number of labels of each item and each annotator.
    random_state
        Not used: the fit is deterministic.
    callback
        Called once with the leading singular value, and after every pass of the refinement.
    """

    _method = "ghosh-svd"

    normalize: bool = True


def ghosh_svd(annotations: Annotations, *, normalize: bool = True, callback: Callback | None = None) -> Fit:
    """Fit by the leading singular vector of each connected group of annotators; see :class:`GhoshSVD`."""
    from scipy.sparse import csr_array

    a = annotations
    N, M = a.n_items, a.n_annotators
    per_item = a.labels_per_item
    row = np.repeat(1.0 / np.sqrt(np.maximum(per_item, 1)), per_item) if normalize else np.ones(a.n_labels)
    column = 1.0 / np.sqrt(steadied(a.labels_per_annotator)) if normalize else np.ones(M)
    signed = np.where(a.label == 1, row, -row) * column[a.annotator]
    signs = csr_array((signed, a.annotator.astype(np.int32), a.indptr), shape=(N, M)).tocsc()
    weights = np.full(M, np.nan)
    largest = 0.0
    for members in _groups(a):
        part = signs[:, members].tocsr()
        part = part[np.diff(part.indptr) > 0]
        flipped = part.T.tocsr()

        def gram(x: Floats, part: csr_array = part, flipped: csr_array = flipped) -> Floats:
            return np.asarray(flipped @ (part @ x))

        value, v = leading_eigenvector(gram, members.size)
        largest = max(largest, float(np.sqrt(max(value, 0.0))))
        weights[members] = v * column[members]
        n = a.labels_per_annotator[members]
        weights[members] /= max(float(np.sqrt(n @ weights[members] ** 2 / n.sum())), 1e-300)
    if callback:
        callback(Progress(1, 1, largest, float("nan")))
    return weighted_vote(a, oriented(a, weights), history=[largest])


METHOD = Method("ghosh-svd", ghosh_svd, "GhoshSVD", "the leading singular vector of the labels", needs=(TWO_CLASSES,))


def _groups(annotations: Annotations) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the groups of two or more annotators that common items join."""
    group = components(annotations.indptr, annotations.annotator, annotations.n_annotators)
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    return [members for members in parts if members.size > 1]
