"""Constants of this folder that influence results: value, origin, sensitivity."""

from __future__ import annotations

#: Fewest known answers for errors on them, panels and families by gold.
#: origin: as for estimates; sensitivity: none where more are known.
FEWEST = 10
#: Known answers from which on families rest on them alone.
#: origin: as for the effective number of annotators (``ENOUGH_GOLD``); sensitivity: not measured.
FAMILY_GOLD = 30
#: Judges are a family if the lower bounds of the correlations of their errors are at least this, on average.
#: origin: by design (copies have 1, independent judges 0); sensitivity: llmbar without
#: gold has 20, 29 and 21 families with 0.2, 0.3 and 0.5; three of the first mix two models, none of the others.
FAMILY = 0.3
#: Items that two judges must share before their errors are compared.
#: origin: as for copies (``COPY_COMMON``); sensitivity: not measured.
FAMILY_COMMON = 20
#: Most judges for families: the table of all pairs grows with their square.
MOST_JUDGES = 2000
#: A panel is as good as the best if its error is at most this much larger.
#: origin: the definition of the smallest panel; sensitivity: not measured.
HALF_POINT = 0.005
#: Folds and repetitions of the cross-validation of panels.
#: origin: by design; sensitivity: not measured.
FOLDS, REPEATS = 5, 5
#: Judges up to which the consensus without each of them is computed by default: it takes a fit for every judge.
MOST_FITS = 25
#: Effects need halves of the other judges that agree: t-value of their correlation.
#: origin: by design (an F of 16 for the instrument; 10 is the usual rule); sensitivity: not measured.
RELATED = 4.0
