"""Constants of this folder that influence results: value, origin, sensitivity."""

from __future__ import annotations

#: Fewest known answers for an estimate: with fewer, the coefficients of the predictors fit anything.
#: origin: by design; sensitivity: none where more are known.
FEWEST = 10
#: Share of the known answers that routing learns from; the others test.
#: origin: by design, most answers should test; alternatives: none; sensitivity: not measured.
LEARN = 0.3
#: Thresholds of confidence that routing tries: quantiles of the confidence of items.
#: origin: by design; sensitivity: not measured.
THRESHOLDS = 101
