"""Constants that influence the consensus of numbers, with their origin and sensitivity.

Origin, unless a line says otherwise: five families of public sets (``emotion_full`` with its seven scales,
``movie_reviews``, and three scales taken as numbers: ``metaphor_novelty``, ``llmjudge_trecdl23``, ``adult2``), all of
which were seen while the models were developed.  ``python -m benchmarks numeric`` chooses rounding, ridge and the
weight of the mean without each family, and prints the errors of the family left out.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ABSOLUTE",
    "ADDITIVE",
    "BELIEF",
    "CLOSE",
    "CROWD_BIAS",
    "CROWD_SCALE",
    "FEWEST_ANSWERS",
    "KERNEL_BINS",
    "KERNEL_PLACES",
    "LEAST_SPREAD",
    "MOST",
    "PRIOR_WEIGHTS",
    "RIDGE",
    "SCALED",
    "SLIP",
    "SPREAD",
    "SYSTEMATIC",
    "Shape",
]


class Shape(NamedTuple):
    """What a model of annotators contains, and how far from the crowd its parts may go."""

    scales: bool  #: annotators differ in scale
    rounding: float  #: added to squared residuals, in units of the pooled noise: exact ties are no proof of precision
    freedom: float  #: least degrees of freedom of Student's t
    precision: float  #: least shape of the prior of precisions: the fewer, the more annotators may differ
    ease: float  #: least shape of the prior of the ease of items; 0: all are equally easy


#: Answers that are mostly zero have little noise and a small scale at once: where scales are estimated, differences in
#: noise count less (rounding 0.3 instead of 0.1) and items are equally easy.  sensitivity: with a rounding of 1,
#: movie_reviews gains 25 % instead of 27 % over the mean; with 0.1 the error on emotion_full rises by 0.6 %.
SCALED = Shape(scales=True, rounding=0.3, freedom=10.0, precision=5.0, ease=0.0)
ADDITIVE = Shape(scales=False, rounding=0.1, freedom=5.0, precision=5.0, ease=5.0)
#: The largest shape and number of degrees of freedom.
MOST = 100.0
#: Least variance between items, as a share of the variance of all answers.
LEAST_SPREAD = 0.02

#: Weights of the members beforehand, and the strength (in units of the variance of answers) with which they hold
#: against the prediction of answers left out.  The two models count the same, by design.
#: sensitivity: with a third for each, the same within 0.1 %; with a ridge of 0.3, movie_reviews gains 20 % instead of
#: 27 % over the mean.
PRIOR_WEIGHTS = {"mean": 0.5, "median": 0.0, "scaled": 0.25, "additive": 0.25}
RIDGE = 0.03

#: An answer so many robust standard deviations from the median of its item is a slip.
#: origin: by design; at most 0.1 % of the answers of the public sets are beyond; sensitivity: none on these sets.
SLIP = 6.0
#: Greatest distance, in powers of ten, of an answer from a multiple that a wrong unit gives.
CLOSE = 0.15

#: Error of the crowd as a whole, as a multiple of the standard deviation of answers to an item: it does not get smaller
#: with more labels.  The mean absolute error, in standard deviations (errors are heavier-tailed than normal), and the
#: standard deviation on a log scale of how far a set is from that.
#: origin: 90 % intervals cover 85 to 100 % of the truths of eleven sets, but 71 % on llmjudge_trecdl23, whose judges
#: err together; with 0.5 they cover 73 to 99 %, with 0.8 90 to 100 %.
SYSTEMATIC, ABSOLUTE, SPREAD = 0.65, 0.68, 0.35
#: Prior standard deviations of how the crowd errs as a whole: its bias, as a multiple of the standard deviation of
#: answers to an item, and its scale.  They matter with few known values only.
#: origin: mean of the truths less that of the means, and slope of the truths on the means, on twelve sets.
CROWD_BIAS, CROWD_SCALE = 0.25, 0.3
#: Pseudo-observations of the error of the crowd, beside known values.
BELIEF = 5.0

#: Fewest answers of an annotator for a density estimated with kernels; places of the grid of values; bins of answers.
#: origin: by design; with 300 answers of each of six simulated annotators with two modes the error is 0.42 of that of
#: the parametric models, with 1000 0.31; alternatives: none; sensitivity: not measured on public sets.
FEWEST_ANSWERS, KERNEL_PLACES, KERNEL_BINS = 200, 40, 256
