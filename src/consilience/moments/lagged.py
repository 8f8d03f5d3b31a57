"""Label counts of neighbouring tokens, for ordered pairs of annotators.

For annotators m and j and neighbouring tokens n - 1 and n of one sequence, the sample counterpart of Traganitis 2019,
eq. (4.4), with missing labels:

    S[m, j](a, b) = #{n of which m said a, and j said b of n - 1} / #{n that m labelled, and j labelled n - 1}.

S[m, j] is not the transpose of S[j, m], and S[m, m] is a moment like any other: given the truths, an annotator's labels
of two tokens are independent.  So all ordered pairs count (eq. (4.5) prints j > m).  Only pairs that occur are stored:
memory grows with the observed pairs, not with M².  Counts of disjoint sets of sequences add up.

====== ===================== ====================================================
symbol name                  shape
====== ===================== ====================================================
m, j   ``who``               (P, 2): annotator of the later and of the earlier token
S      ``frequencies``       (P, K, K), each block sums to one
====== ===================== ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ParameterError
from consilience.kernels.lagged import count_lagged
from consilience.moments._counts import LabelCounts

__all__ = ["LaggedMoments", "lagged_moments"]


def lagged_moments(sequences: SequenceAnnotations) -> LaggedMoments:
    """Count the label pairs of neighbouring tokens, for all ordered pairs of annotators, in one pass."""
    a = sequences.tokens
    who, counts = count_lagged(sequences.indptr, a.indptr, a.annotator, a.label, a.n_annotators, a.n_classes)
    return LaggedMoments(who, counts, a.annotator_ids, a.class_ids)


@dataclass(frozen=True, eq=False)
class LaggedMoments(LabelCounts):
    """Label counts of neighbouring tokens, for the ordered pairs of annotators that have any.

    Parameters
    ----------
    who
        Annotator of the later and of the earlier token, (P, 2), rows in lexicographic order.
    counts
        ``counts[p, a, b]``: how often the first of pair p said a where the second said b one token earlier.  Integers
        from data; any nonnegative numbers where blocks are known otherwise.
    annotators, classes
        Their names.
    """

    _name = "lagged moments"

    def __post_init__(self) -> None:
        who = np.ascontiguousarray(self.who, np.int32)
        counts = np.ascontiguousarray(self.counts)
        K = len(self.classes)
        if who.ndim != 2 or who.shape[1:] != (2,) or counts.shape != (len(who), K, K):
            raise ParameterError(
                f"lagged moments need who of shape (P, 2) and counts of shape (P, {K}, {K}), "
                f"not {who.shape} and {counts.shape}"
            )
        if who.size and not (who.min() >= 0 and who.max() < len(self.annotators)):
            raise ParameterError(f"the annotators of a pair must be codes from 0 to {len(self.annotators) - 1}")
        self._freeze(who, counts)

    def __repr__(self) -> str:
        return f"<LaggedMoments: {len(self)} pairs of {self.n_annotators} annotators, {self.n_classes} classes>"
