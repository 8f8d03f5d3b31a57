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

#: Exponents of the votes and of the model, and the correlation of errors that tempers the model.
#: origin: the mean over seven folds, chosen by log-loss on 25 public sets and thinned ones, folds being whole sets with
#: all their thinned versions; alternatives: a mean of probabilities, votes as counts, smoothed votes, a correlation in
#: proportion to the measured one; sensitivity: left out, all of them are within 0.2 points on crowds and on panels,
#: except votes as counts (0.8 worse on crowds).  ``benchmarks field`` refits them, with the doubt of assigned items,
#: without thinned sets: 0.28, 0.45, 0.16 and 0.065; on crowds alone 0.25, 0.39, 0.10 and 0.058; with thinned sets 0.25,
#: 0.41, 0.18 and 0.084.  Errors differ by 0.1 points at most, the stated error of crowds by 4 points.
VOTES, MODEL, CORRELATION = 0.27, 0.45, 0.18

#: Share of items of which the labels say nothing: annotators whose items were assigned, who err together, who speak by
#: choice.
#: origin: the first as above, the others by log-loss on the public sets of the kind; alternatives: a power of the
#: probabilities; sensitivity: ``benchmarks field`` chooses it without the set that is judged.
DOUBT = {"assigned": 0.055, "together": 0.2, "by choice": 0.25}

#: Share of items that models with a fixed and a learned prior label differently: up to which a model may be taken at
#: its word, and from which on it may not.
#: origin: simulated crowds; alternatives: none; sensitivity: crowds of spammers, adversaries and experts have 0.001 to
#: 0.021, annotators who are all right six times in ten 0.03 to 0.48, where the model at its word is 2 to 13 points
#: worse than votes; no public set is affected.
BY_PRIOR = 0.02, 0.04

#: Share of the uniform distribution in the votes, so that no vote rules a class out.
#: origin: by design; alternatives: none; sensitivity: not measured.
FLOOR = 0.01

# ---- known answers ---------------------------------------------------------------------------------------------------

#: Known answers with labels from which on the pool learns from them.
#: origin: by design; alternatives: none; sensitivity: not measured.
LEAST_KNOWN = 5

#: Precision of the prior of a share (votes, model, vote by record) and of the offset of a class, and the number of
#: answers that an average annotator's record is worth.
#: origin: 27 public sets, three draws of 10, 30 and 100 known answers; alternatives: 64 combinations with 1 to 3 for
#: shares, 3 to 20 for offsets, 1 and 2 answers, weights of votes below zero; sensitivity: mean error with 30 answers
#: 21.1 to 21.5 %, with 100 19.7 to 20.4 %; a low precision of the offsets gains where labels are off balance, and costs
#: up to 8 points with ten answers.  Chosen without the judged set, 21.4 and 20.0 %; without offsets 21.6 and 20.4 %.
SHARE_PRECISION, OFFSET_PRECISION, RECORD_ANSWERS = 3.0, 10.0, 1.0

#: Least share of votes and model: a few surprising answers lower confidence, but do not leave labels to chance.
#: origin: by design; alternatives: 0, 0.1, 0.3; sensitivity: at most 0.1 points on the mean.
LEAST_SHARE = 0.02

#: Parts of the known answers that are left out in turn.  origin: convention; alternatives: none.
FOLDS = 5

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

#: Cells of all confusions above which there are no subtypes, and above which there is no model beside the votes.
#: origin: memory; alternatives: none; sensitivity: not measured.
MOST_CELLS, MOST_MODEL_CELLS = 1 << 22, 1 << 26
