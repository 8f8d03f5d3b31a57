"""Constants of this folder that influence results: value, origin, sensitivity."""

from __future__ import annotations

#: Fewest known answers for an estimate: with fewer, the coefficients of the predictors fit anything.
#: origin: by design; sensitivity: none where more are known.
FEWEST = 10
#: Known answers of the rarer kind (such as wins, if most answers lose) for each predictor of an estimate: with fewer,
#: the coefficients fit anything, and intervals cover too little.
#: origin: coverage on ten public sets with 10 to 50 known answers, of 2 to 5; alternatives: 2 (covers less), 5 (wider);
#: sensitivity: half-widths up to 1 % larger with 20 to 50 known answers; none with more unless a kind is rare.
RARER = 3
#: Share of the known answers that routing learns from; the others test.
#: origin: by design, most answers should test; alternatives: none; sensitivity: not measured.
LEARN = 0.3
#: Thresholds of confidence that routing tries: quantiles of the confidence of items.
#: origin: by design; sensitivity: not measured.
THRESHOLDS = 101
