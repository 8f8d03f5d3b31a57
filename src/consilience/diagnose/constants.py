"""Constants of this folder that influence results: value, origin, alternatives that were tried, sensitivity.

"Crowds" are the 21 public crowds with truth.  The sensitivity of the verdict rules is the number of crowds (fitted by
``ds-em``) whose verdict changes with half and twice the value, unless other values are given.  No alternatives were
tried for these, nor elsewhere where none are named.  The constants of groups of copies are in
:mod:`consilience.moments.copies`.
"""

from __future__ import annotations

# ---- correlation of errors (also of auto) ----------------------------------------------------------------------------

#: Error correlation that a plan expects of further labels where errors correlate at all.
#: origin: eleven crowds, by the calibration of an earlier default; alternatives: a grid around it; sensitivity of
#: plans: not measured.
TYPICAL = 0.25
#: Scale of error correlations where annotators err together, and share of crowds whose annotators are independent.
#: origin: the root mean square on 21 crowds and four panels is 0.09, √3 times the scale, which needs no truth; one
#: in 20, as all of these 25 err together; alternatives: 0.03 and 0.07, one in 50 and in ten, a normal prior of the
#: correlation; sensitivity: log-loss in units of log K on 13 crowds, 20 quarters and 30 sixteenths of crowds, and 36
#: simulated ones: 0.472, 0.538, 0.493 and 0.382; with one in ten 0.471, 0.540, 0.495 and 0.379; if all are taken to err
#: together 0.473, 0.537, 0.493 and 0.470.
CORRELATION, INDEPENDENT = 0.05, 0.05

# ---- copies and the effective number of annotators -----------------------------------------------------------------

#: Two annotators are copies with this many common items, excess agreement of this many standard errors, and this share
#: of the answers copied.
#: origin: simulated copies, and no copies in six crowds; sensitivity, groups in 16 crowds (below 30,000 labels): 10
#: items: a pair in product, 40: none; 3 errors: pairs in zencrowd_us and product, 8: one pair of zencrowd_all less;
#: share 0.5: pairs in zencrowd_us and zencrowd_all, 0.9: none; duck, where find_copies sees groups, varies throughout.
COPY_COMMON, COPY_ERRORS, COPIED_SHARE = 20, 5.0, 0.75
#: Groups of three or more who agree on this share of their common items are checked for copies.
#: origin: by design; sensitivity: 0.8 and 0.95 give the same groups.
CLOSE_AGREEMENT = 0.9
#: Gold items with two labels from which on the effective number relies on gold only.
#: origin: by design; sensitivity: not measured.
ENOUGH_GOLD = 30

# ---- changes over time ---------------------------------------------------------------------------------------------

#: Probability that anybody is flagged in a crowd of steady annotators; labels of an annotator that is tested; rounds.
#: origin: convention, and by design; sensitivity: in simulated steady crowds 0 to 8 % had anybody flagged.
CHANGE_LEVEL, CHANGE_LABELS, CHANGE_ROUNDS = 0.05, 20, 50

# ---- verdict rules -------------------------------------------------------------------------------------------------

#: Share of the labels outside the largest group of linked annotators, above which the verdict is "weakly", and "not".
#: origin: by design; sensitivity: 0 and 0.
OUTSIDE_NOTE, OUTSIDE_NOT = 0.01, 0.10
#: p-value of independence above which agreement is no evidence, and above which it is slight.
#: origin: by design; sensitivity: 0 with a tenth and ten times the first, 0 with 1e-8 and 1e-4 for the second.
GUESSING, SLIGHT = 1e-3, 1e-6
#: p-value, divided by the number of annotators, below which one is related to the others; also of two classes that
#: annotators distinguish.  origin: convention; sensitivity: 0 and 0.
RELATED = 0.01
#: Annotators confuse two classes when their correlation is below BLURRED by this many standard errors.
#: origin: by design; sensitivity: 0 and 2 (reuters_amt, metaphor_novelty to "not"); with 2 errors 1, with 5 errors 0.
BLURRED, BLOCK_ERRORS = 0.1, 3.3
#: Share of the labels that change under a bootstrap over items.
#: origin: by design; sensitivity: 3 (bluebird, trec, adult2 to "weakly") and 4 (labelme, music, leaves, dices350 to
#: "identified").  This is the most sensitive of the rules.
LABELS_CHANGED = 0.05
#: Standard error of a class's mean column for "weakly" and for "not"; a column that jumps between two corners has 0.7.
#: origin: by design; sensitivity: 0 and 0 for both.
CLASS_WEAK, CLASS_NOT = 0.1, 0.5
#: Distance of a class from its nearest specialist; 0.71 is a label that two classes share evenly.
#: origin: by design; sensitivity: 0 with 0.5 and 0.7.
NO_SPECIALIST = 0.6
#: Expected items below which a class has none.  origin: by design; sensitivity: not measured.
NO_ITEM = 0.5
#: Share of the labels from annotators with fewer than ten.  origin: by design; sensitivity: 0 and 0.
FEW_SHARE = 0.25
#: Shortfall of the sufficiently scattered condition that matters where fewer than FEW_TRIPLES of the items have three
#: labels.  origin: by design; sensitivity: 0 and 0 for both.
SHORTFALL, FEW_TRIPLES = 0.1, 0.05
#: Labels added to every cell of a confusion, so that three labels make no specialist.
#: origin: Jeffreys; sensitivity: not measured.
SMOOTHING = 0.5
#: The bound of eq. (20) holds with probability 1 - DELTA.  origin: convention; sensitivity: none, it is only shown.
DELTA = 0.05
#: Common items that a link between annotators takes: per class, at least and at most.
#: origin: ten for each class determine a confusion to ±0.16; sensitivity: 0 and 0.
COMMON_PER_CLASS, LEAST_COMMON, MOST_COMMON = 10, 20, 200

#: What subtypes add to the log-probability of the labels, in nats per label, from which annotators err together.
#: origin: 0.047 and more on duck and three panels, 0.014 and less on other sets; sensitivity: none between these.
ERR_TOGETHER = 0.02

#: Standard errors and share of items by which the error on known answers must exceed the expected one to contradict it.
#: origin: by design: of thousands of known answers, chance alone explains too little; sensitivity: not measured.
CONTRADICTED, CONTRADICTED_SHARE = 3.0, 0.05

#: Probability with which collecting as much as the advice says satisfies a rule.
#: origin: by design; sensitivity, numbers of items by the formula: 0.7 to 0.8 times with 0.75, 1.1 to 1.2 with 0.95.
POWER = 0.9
#: Agreement of two annotators beyond chance (Cohen's κ) that the advice expects where there is none to measure.
#: origin: three quarters of 21 crowds and all of four panels agree more (the median is 0.31); sensitivity: numbers of
#: items are proportional to 1 / κ².
TYPICAL_AGREEMENT = 0.2
#: Annotators that the advice asks to find, and items that it asks to collect with them, at most.
#: origin: by design; alternatives: 9 annotators, with whom a single annotator of three items was told to find nine
#: others; sensitivity: not measured.
MOST_NEWCOMERS, MOST_ITEMS = 4, 10_000

# ---- plan ----------------------------------------------------------------------------------------------------------

#: Share of the budget for joining annotators where that is not urgent.  origin: by design; sensitivity: not measured.
SPARE_BUDGET = 0.25
#: Labels given to an annotator, as a share of those that they gave before, while others can be asked.
#: origin: by design; sensitivity: not measured.
TRUST = 0.5
#: Labels given to an annotator, as a multiple of their share of the labels so far, while others can be asked.
#: origin: the mean saving on the nine crowds of ``benchmarks plan``, the same with each left out (with 4 on music);
#: alternatives: 2, 4, no limit; sensitivity: 43 % of the labels are saved with 3, 42 % with 2, 41 % with 4 or no limit.
SPREAD = 3.0

# ---- sizes: beyond them, results are estimates from a sample or a part of the data; chosen for time and memory -------

#: Pairs of labels for the correlation of errors in a crowd, more if these times K are below the second.
CROWD_PAIRS, CROWD_CELLS = 50_000, 1_000_000
#: Pairs of labels for the correlation of each pair of annotators, divided by K²; at least the second.
MOST_PAIRS, LEAST_PAIRS = 1 << 22, 1 << 13
#: Labels, and classes, for the effective number of annotators.
HEALTH_LABELS, HEALTH_CLASSES = 50_000, 64
#: Blocks of items in a bootstrap of coefficients of agreement, and numbers in their sums.
AGREEMENT_BLOCKS, AGREEMENT_ROOM = 2000, 1 << 24
#: Cohen's κ: annotators, pairs of labels, cells of all tables, and pairs of labels times draws.
KAPPA_ANNOTATORS, KAPPA_PAIRS, KAPPA_CELLS, KAPPA_WORK = 100, 1 << 18, 1 << 18, 1 << 26
#: Annotators up to which walks of three steps are counted; otherwise start and end nodes, and additions, of a sample.
EXACT_WALKS, WALK_SAMPLE, WALK_COST = 3000, 256, 10**8
#: Cells of all pair blocks; blocks whose singular values are computed; cells that are tested for independence.
MOST_CELLS, MOST_BLOCKS, MOST_TESTED = 1 << 28, 20_000, 1 << 20
#: Classes that are told apart; beyond, the rarest are taken as one.
MOST_CLASSES = 500
#: Search for the shortfall with more than three classes: random directions, sides of the simplex, and the distance of a
#: corner, in 1/r, from which on the hull does not surround the centre.
SCATTER_STARTS, SCATTER_SIDES, FAR_CORNER = 16, 32, 1e4
#: Draws of the bootstrap, and steps of one of its passes beyond which there is none unless it is asked for.
DRAWS, MOST_STEPS = 20, 1_000_000
#: Classes beyond which the shortfall is not searched for unless it is asked for.
MOST_SEARCHED = 6
#: Labels of a bootstrap draw, at least so many per annotator and class; passes and tolerance of its fit.
DRAW_LABELS, DRAW_LABELS_PER_CLASS, DRAW_PASSES, DRAW_TOLERANCE = 200_000, 20, 30, 1e-6
#: Items, and annotators, that a plan considers: enough for this many times the budget, and at least so many items.
CONSIDERED, LEAST_CONSIDERED = 5, 5000
#: Items on which the mean gain of an annotator is estimated to choose the annotators that a plan considers.
GAIN_SAMPLE = 32
#: Items considered for one link, and labels of an item beyond which another one counts as the last of these.
JOIN_POOL, MOST_WEIGHTS = 4000, 1000
#: Labels in which missing links between annotators are looked for first.
JOIN_LABELS = 1_000_000

# ---- silence -----------------------------------------------------------------------------------------------------

#: Labels below which an annotator says nothing about silence.
#: origin: by design; alternatives: none; sensitivity: not measured.
SILENCE_LABELS = 10

#: Share of annotators who only ever use one class from which silence is informative.
#: origin: between 21 public crowds (at most 0.15) and six sets of labelling functions (at least 0.67); alternatives:
#: any value between; sensitivity: none on these sets.
ONE_CLASS_SHARE = 0.5

#: Probability, by the crowd's label shares, below which using one class only is no chance.
#: origin: by design; alternatives: none; sensitivity: not measured.
ONE_CLASS_CHANCE = 0.01

#: Distance and dispersion of the votes on an annotator's items from which silence is informative.
#: origin: labelling functions have a distance of at least 0.13 and a dispersion of at least 26, 21 public crowds at
#: most 0.13 and 4.5, three panels 0.01 and 0.8; alternatives: any dispersion from 5 to 25; sensitivity: none on these.
SILENCE_DISTANCE, SILENCE_DISPERSION = 0.1, 10.0

#: Share of all possible labels from which hardly anybody is silent.
#: origin: by design; alternatives: none; sensitivity: not measured.
DENSE_SHARE = 0.9

# ---- known answers ---------------------------------------------------------------------------------------------------

#: Known answers with labels from which on they are compared with the consensus, and ``auto`` learns from them.
#: origin: by design; alternatives: none; sensitivity: not measured.
LEAST_KNOWN = 5

#: Parts of the known answers that are left out in turn.  origin: convention; alternatives: none.
FOLDS = 5
