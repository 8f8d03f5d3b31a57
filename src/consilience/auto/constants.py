"""Constants of ``auto`` that influence results: value, origin, alternatives, sensitivity.

Origin says how a value was chosen; "by design" is a choice from the model alone.  Alternatives are those that were
tried, sensitivity is what changes with the value; docs/decisions/0005 has the full record, ``python -m benchmarks
calibration`` and ``python -m benchmarks thinned`` repeat the measurements.  The constants of error correlation are in
:mod:`consilience.diagnose.constants`, those of copies in :mod:`consilience.moments.copies`.
"""

from __future__ import annotations

# ---- which models ------------------------------------------------------------------------------------------------

#: Nats by which subtypes, a coin alone, or a start from known answers must raise the log-probability of the labels.
#: origin: between bluebird (subtypes gain 15 and do not help) and zencrowd_us (38); alternatives: 0 for the coin;
#: sensitivity: with 0, auto was worse than voting on 36 of 110 thinned crowds (mean error 19.40 against 19.15 %).
MARGIN = 20.0

#: Nats by which equal classes or the fixed prior may lower it before they are left out of the average.
#: origin: thinned and simulated crowds; alternatives: 50 to 400; sensitivity: little difference.
FAR = 100.0

#: Spread of ease σ of the model with hard items, and the nats that it must gain.
#: origin: public crowds; alternatives: σ from 0.35 to 1.4, hard items unless they cost 20 nats; sensitivity: 0.7 is
#: nearest to the maximum on most; the cost of 20 makes simulated crowds 0.2 points worse.
SPREAD, HARD_GAIN = 0.7, 3.0

#: The fixed prior: pseudo-labels for right answers, and for wrong ones together.
#: origin: Li, Rubinstein & Cohn (2019); alternatives: a learned prior; sensitivity: with subtypes and a learned prior
#: zencrowd_us has 23 % errors instead of 8.6 %; other values not measured.
RIGHT, WRONG = 4.0, 1.0

#: Random starts of the subtypes, and pseudo-items that the subtypes of a class share.
#: origin: by design; alternatives: one start; sensitivity: a second start changes the gain by at most 3 nats on public
#: crowds, unless the first got stuck; the pseudo-items were not measured.
SUBTYPE_STARTS, SUBTYPE_ITEMS = 2, 0.2

#: Nats per class that an empty second subtype costs at most: a start that ends lower got stuck, and another is made.
#: origin: by design; alternatives: none; sensitivity: not measured.
EMPTY_COST = 2.0

#: Labels of an annotator per class below which they show nothing about subtypes.
#: origin: by design; alternatives: none; sensitivity: not measured.
SUBTYPE_LABELS = 10

#: Active annotators below which neither hard items nor the fixed prior are tried.
#: origin: once a limit of running time; kept so that results stay the same; alternatives: none; sensitivity: not
#: measured.
FEWEST_ANNOTATORS = 5

# ---- calibration -------------------------------------------------------------------------------------------------

#: ε₂, the doubt for two classes; with K classes it is ε₂ log₂ K.
#: origin: eleven public crowds, together with the error correlation of 0.25; alternatives: the grid of ``benchmarks
#: calibration``; sensitivity: values around give a mean calibration error of 0.045 to 0.055.
DOUBT = 0.03

#: The least weight of a label for a model that knows of hard items.
#: origin: bluebird; alternatives: 0; sensitivity: calibration error on bluebird (39 labels per item) 0.07, with 0 it is
#: 0.14; no change below 14 labels per item.
HARD_ITEMS_WEIGHT = 0.25

# ---- limits of work ----------------------------------------------------------------------------------------------

#: Labels of the sample in which copies, subtypes and hard items are looked for.
#: origin: by design; alternatives: the choice between coin and confusions uses all labels, because a sample bears a
#: poorer model (3.4 points lost on a simulated crowd of a thousand annotators); sensitivity: not measured.
SAMPLE = 20_000

#: Relative change that ends the fit of a coin that is only compared and of hard items, and of subtypes to all labels.
#: origin: fact_eval, where subtypes come apart late; alternatives: the general tolerance for subtypes; sensitivity:
#: fact_eval 13.9 instead of 10.9 % with it; ROUGH_TOL not measured.
ROUGH_TOL, FINE_TOL = 1e-4, 1e-6

#: Cells of all confusions above which hard items are not tried (their tables have three times as many).
#: origin: memory; alternatives: none; sensitivity: not measured.
MOST_CELLS = 5_000_000

#: Passes after which equal classes with hard items are given up if they are three times FAR behind.
#: origin: by design; alternatives: none; sensitivity: not measured.
GLANCE = 4

# ---- known answers -----------------------------------------------------------------------------------------------

#: Known answers with labels from which on annotators may count by their record.
#: origin: by design; alternatives: none; sensitivity: not measured.
LEAST_KNOWN = 10

#: Shares of the vote by record, and scales of its scores, that are tried.
#: origin: by design, a coarse grid; alternatives: scales from 0.1 to 1 only, averaging over the grid instead of its
#: maximum; sensitivity: on 28 public sets with 30 known answers, 0.5 points above the better of both on the mean with
#: either grid, 0.7 with averaging.
RECORD_SHARES, RECORD_SCALES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0), (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

#: Nats that the whole share costs, and the probability that a known answer is a slip.
#: origin: 27 public sets, three draws each; alternatives: 1, 3 and 5 nats; sensitivity: little; with 3, llmbar has 26 %
#: errors with ten known answers instead of 17 %. The doubt was not measured.
RECORD_CHARGE, RECORD_DOUBT = 2.0, 0.02

#: Standard errors by which the error on known answers must exceed the expected one for a warning.
#: origin: by design; alternatives: none; sensitivity: not measured.
CONTRADICTED = 3.0

#: Known answers per annotator below which records are too short to tell who is right in a crowd that is not.
#: origin: between llmbar (every annotator answers every item) and simulated crowds of 60 % adversaries with ten known
#: answers, 3.3 per annotator; alternatives: none; sensitivity: not measured.
SHORT_RECORD = 5.0

#: Standard errors by which the error on known answers must exceed that of guessing for a crowd that is wrong together.
#: origin: by design; alternatives: 0; sensitivity: with 0, llmbar has 30 % errors with 30 known answers, not 16 %.
BELOW_GUESSING = 2.0
