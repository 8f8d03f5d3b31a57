"""Constants of this folder that influence results: value, origin, sensitivity."""

from __future__ import annotations

#: Fewest known answers for an estimate: with fewer, the coefficients of the predictors fit anything.
#: origin: by design; sensitivity: none where more are known.
FEWEST = 10
#: Known answers of the rarer kind (such as wins, if most answers lose) that one predictor of an estimate takes, and
#: both: with fewer, the coefficients fit anything, and intervals cover too little.  Below the first, the panel does not
#: count in a group either, and intervals are Clopper and Pearson's.
#: origin: the first, coverage on ten public sets with 10 to 50 known answers, of 2 to 5; the second, that of 14
#: simulated panels with shares of 5 to 50 %; alternatives: 6 (92 % where 15 has 95), 20 (no better);
#: sensitivity: half-widths up to 2 % larger with 20 to 50 known answers; none with more unless a kind is rare.
RARER = (3, 15)
#: Folds of the known answers for the record of judges.
#: origin: usual; alternatives: 10 (half-widths up to 0.5 % smaller, coverage up to 1 point lower where a kind is rare).
FOLDS = 5
#: Share of the known answers that routing learns from; the others test.
#: origin: by design, most answers should test; alternatives: none; sensitivity: not measured.
LEARN = 0.3
#: Thresholds of confidence that routing tries: quantiles of the confidence of items.
#: origin: by design; sensitivity: not measured.
THRESHOLDS = 101
