"""Constants of ``auto`` that influence results: value, origin, alternatives, sensitivity.

Origin says how a value was chosen; "by design" is a choice from the model alone.  "Left out" means: chosen on other
public sets than those that are judged, ``python -m benchmarks field`` repeats it.  The constants of error correlation
are in :mod:`consilience.diagnose.constants`, those of copies in :mod:`consilience.moments.copies`.
"""

from __future__ import annotations

# ---- the model -----------------------------------------------------------------------------------------------------

#: Subtypes of a class, at most, and the pseudo-items that they share.
#: origin: Li, Rubinstein & Cohn (2019); alternatives: 2, 3 and 5 subtypes, one pseudo-item; sensitivity: mean error on
#: 21 crowds 20.3, 19.1, 18.6 and 18.6 instead of 18.8 %; with 2, duck has 43 % instead of 20 %.
SUBTYPES, SUBTYPE_ITEMS = 10, 0.1

#: The prior of a confusion: pseudo-labels in every cell, and further ones on the diagonal.
#: origin: Li, Rubinstein & Cohn (2019); alternatives: 0.5 and 1.5, 1 and 6; sensitivity: 19.1 and 19.8 % on 21 crowds.
SMOOTHING, DIAGONAL = 1.0, 3.0

#: Pseudo-items of the class proportions, spread as the votes are.
#: origin: between few, which suit simulated crowds with rare classes, and all items, as the authors have it;
#: alternatives: 0, 3, 10, 30, all; sensitivity: 21 crowds 18.9, 18.8, 18.8, 18.7 and 18.6 % (18.6 with 100), crowds
#: with rare classes 6.7, 6.6, 6.6, 6.7 and 10.7 % (7.6 with 100).
CLASS_ITEMS = 100.0

#: Nats by which subtypes must raise the lower bound.
#: origin: the best of ten starts, of a bound, needs more than chance; alternatives: 0; sensitivity: with 0, bluebird
#: and adult2 get subtypes, and errors of 13.9 and 24.9 instead of 11.1 and 21.9 %.
MARGIN = 20.0

#: Random starts of the subtypes; two if these do not beat a model without subtypes.
#: origin: by design; alternatives: 3 and 6; sensitivity: with 3 or 6, duck has 20 to 41 % errors depending on the seed.
STARTS = 10

# ---- the pool ------------------------------------------------------------------------------------------------------

#: Exponents of votes and model, and the share of items of which the labels say nothing, for annotators whose items were
#: assigned, and for those who err together or speak by choice.
#: origin: by log-loss on public sets; that votes count twice as much as the model of annotators who err together, from
#: simulated functions (``benchmarks labelling_functions``), where any factor from 1.3 to 4.5 is within 0.2 points;
#: alternatives: the first exponents for all, with which functions have 0.6 and llmbar 0.5 points more; a doubt of their
#: own for functions; a mean of probabilities, votes as counts, smoothed votes; sensitivity: ``benchmarks field`` refits
#: them without the set that is judged, and without its family.
EXPONENTS = {"assigned": (0.27, 0.45), "together": (0.5, 0.25)}
DOUBT = {"assigned": 0.055, "together": 0.25}

#: Correlation of errors that tempers the model.
#: origin: by log-loss on crowds and panels; alternatives: in proportion to the measured one; sensitivity: refitted
#: without the judged set together with the exponents, it is 0.06 to 0.18, with errors that differ by 0.1 points on
#: crowds and panels, and panels that state 34 instead of 38 % error (37.7 % is true).
CORRELATION = 0.18

#: Share of items that models with a fixed and a learned prior label differently: up to which a model may be taken at
#: its word, and from which on it may not.
#: origin: simulated crowds; alternatives: none; sensitivity: crowds of spammers, adversaries and experts have 0.001 to
#: 0.021, annotators who are all right six times in ten 0.03 to 0.48, where the model at its word is 2 to 13 points
#: worse than votes; no public set is affected.
BY_PRIOR = 0.02, 0.04

#: Probability of dependent errors below which the model is nearly taken at its word, and learns the crowd's habits.
#: origin: by design; alternatives: never; sensitivity: in three crowds of 500 annotators with ten labels each, the mean
#: stated error is 11.2 instead of 8.1 % (10.9 % is true); in the others that are simulated 0.1 points on the mean.
AT_ITS_WORD = 0.5

#: Share of the uniform distribution in the votes, so that no vote rules a class out.
#: origin: by design; alternatives: none; sensitivity: not measured.
FLOOR = 0.01

# ---- known answers ---------------------------------------------------------------------------------------------------

#: Precision of the prior of a share (votes, model), of the offset of a class, and of the weight of an annotator, the
#: latter times the root of the number of labels that an item has.
#: origin: 28 public sets, 10, 30 and 100 known answers; alternatives: those of ``benchmarks known_answers``, which
#: chooses them without the judged set and without its family; a vote by record instead of the weights (0.1, 0.7 and 0.4
#: points worse), or beside them (within 0.4), further models beside the first (within 0.3), weights for every class
#: (within 0.1); sensitivity: mean errors move by at most 0.3, 0.1 and 0.1 points for weights from 1 to 6, but with 1
#: ten answers cost judge_mtbench 3 points, with 6 nothing; an offset precision of 3 costs 8 points with ten answers on
#: trec.
SHARE_PRECISION, OFFSET_PRECISION, WEIGHT_PRECISION = 3.0, 10.0, 6.0

#: A weaker prior of the weights, and the log-probability of left-out known answers that it has to gain.
#: origin: by design, and odds of about seven; alternatives: no gain, 0.5, 1 and 3; sensitivity: without it six copies
#: that are altered by 25 % cost more than 4.4 points with 30 known answers instead of 1.9; on public sets, at most 0.1
#: points on the mean.
LOOSE_WEIGHT_PRECISION, LOOSE_GAIN = 1.0, 2.0

#: Least share of votes and model: a few surprising answers lower confidence, but do not leave labels to chance.
#: origin: by design; alternatives: 0, 0.1, 0.3; sensitivity: at most 0.1 points on the mean.
LEAST_SHARE = 0.02

# ---- fallback ------------------------------------------------------------------------------------------------------

#: Standard errors by which agreement must exceed chance, or nats by which a truth must make the labels more probable,
#: for a model to be fitted.  origin: convention, and odds of about twenty; alternatives: none; sensitivity: agreement
#: in public sets exceeds chance by 9.8 standard errors and more.
AGREEMENT, SIGNAL = 3.0, 3.0

# ---- limits of work ------------------------------------------------------------------------------------------------

#: Labels of the sample in which copies and subtypes are looked for.
#: origin: time; alternatives: none; sensitivity: not measured.
SAMPLE = 50_000

#: Relative change that ends the fit whose only purpose is the correlation of errors.
#: origin: by design; alternatives: none; sensitivity: not measured.
ROUGH_TOL = 1e-5

#: Cells of all confusions above which there is no model beside the votes.
#: origin: memory; alternatives: none; sensitivity: not measured.
MOST_MODEL_CELLS = 1 << 26
