"""The constants that influence a ranking, with origin and sensitivity.

Sensitivities were measured on simulated comparisons; no value was chosen by the held-out judgements that are quoted.
"""

from __future__ import annotations

__all__ = [
    "COMMON_SPREAD",
    "CONFUSED",
    "DRAWS",
    "EXACT_COMPARISONS",
    "EXACT_ITEMS",
    "GUESSING",
    "JUDGE_SPREADS",
    "LEANING",
    "LEVEL",
    "PLANNED_EXACTLY",
    "PROBES",
    "PSEUDO",
    "SAMPLED",
    "SEPARATE",
    "SPREAD",
]

#: Standard deviation of scores, in log-odds, and of a judge's reliability, position, length and tie parameters around
#: the average: where learning starts, and what ``PSEUDO`` further items and judges would have.  Round numbers: a
#: difference of one means 73 to 27 %.  With twenty items, twenty judges and 1,000 comparisons, halving them all moves
#: scores by at most 0.14 of their standard errors, doubling them by at most 0.3.
SPREAD = 1.0
JUDGE_SPREADS = (0.5, 0.5, 0.25, 1.0)
PSEUDO = 1.0
#: Prior standard deviation of the average position, length and tie parameters: nearly flat on a scale of log-odds.
COMMON_SPREAD = 3.0

#: Share of the variation of the sides (or lengths) that items do not explain, below which their common effect cannot be
#: told from scores and is left out.  AlpacaEval, whose reference is always on the left, has 0.015 because some models
#: met two references; PandaLM has 0.2, and pairs shown in random order nearly 1.  Any value between separates them.
SEPARATE = 0.05

#: Probability of the intervals.
LEVEL = 0.95
#: Covariances are exact up to these sizes (a second); beyond, they are estimated from ``SAMPLED`` solutions with random
#: right-hand sides: with ten comparisons for each item, lengths of intervals are then off by 0.5 % (root mean square).
EXACT_ITEMS, EXACT_COMPARISONS, SAMPLED = 2000, 250_000, 64
#: Most items whose plan of comparisons uses their covariance (seconds); beyond, items are taken as independent.
PLANNED_EXACTLY = 1000
#: Draws for the intervals of ranks, where covariances are exact.
DRAWS = 1000
#: Random vectors for the trace of a covariance; fewer for many items or judges.  64 instead change
#: the spreads of 500 items and 100 judges by 0.2 % at most.
PROBES = 8

#: A judge is said to guess if a reliability of at least this is outside the interval (the average is 1).
GUESSING = 0.4
#: A judge is said to prefer a side if it moves even odds beyond 60 to 40 %, and the interval excludes 0.
LEANING = 0.405

#: Pairs that the higher score wins by ``auto``, as a share of those that it wins by votes, below which votes decide.
#: origin: by design; alternatives: none; sensitivity: 0.71 to 0.75 on simulated judges near chance, where votes are
#: right; 0.98 on pandalm, 1.27 on ukpconvarg1.
CONFUSED = 0.9
