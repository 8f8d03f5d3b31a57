"""Constants of the methods that influence results: value, origin, alternatives, sensitivity.

Origin says how a value was chosen; "by design" is a choice from the model alone.  Alternatives are those that were
tried.  Sensitivity is what changes with the value; "not measured" where nobody looked.  Tolerances and floors that only
guard arithmetic stand beside the code that needs them.
"""

from __future__ import annotations

__all__ = [
    "CROWD_RIGHT",
    "CROWD_WRONG",
    "EASE_SPREAD",
    "LEAST_SUBTYPE",
    "MOST_SPLITS",
    "OPEN_ABILITY",
    "OPEN_AGREE",
    "OPEN_PAIRS",
    "RANDOM_MODELS",
    "ROUGH_TOL",
    "SCALE_CELLS",
    "SCALE_PLACES",
    "SILENCE_ACCURACY",
    "SILENCE_EVIDENCE",
    "SPLIT_GAIN",
    "SPLIT_ROUNDS",
    "SPREADS",
    "START_BUDGET",
    "START_PASSES",
    "START_SAMPLE",
    "SUBTYPE_CELLS",
]

# ---- hierarchical, hard-items, ebcc ------------------------------------------------------------------------------

#: Pseudo-labels that an ascent of the crowd's habits starts from: annotators are right four times in five.
#: origin: by design; alternatives: none; sensitivity: not measured (a start: the habits are learned from there).
CROWD_RIGHT, CROWD_WRONG = 4.0, 1.0

#: hard-items: spreads of ease σ that are tried in turn until the objective falls, where none is given.
#: origin: steps of 0.35 around 0.7 (docs/decisions/0005); alternatives: one value from 0.35 to 1.4; sensitivity: 0.7
#: is nearest to the maximum on most public crowds, finer steps not measured.
SPREADS = (0.0, 0.35, 0.7, 1.05, 1.4, 1.75, 2.1)

#: hard-items: relative change that ends the fit of the crowd's habits, and of a spread that is only compared.
#: origin: by design; alternatives: none; sensitivity: not measured.
ROUGH_TOL = 1e-5

#: ebcc: the least a/L (pseudo-items of a subtype).  With less, exp E log π of an empty subtype underflows in the sweep.
#: origin: arithmetic; alternatives: none; sensitivity: none with the default concentration and subtypes (0.01 each).
LEAST_SUBTYPE = 0.005

#: ebcc, auto: most cells of the tables of all subtypes (annotators × classes² × subtypes); ebcc takes fewer subtypes
#: where there would be more, auto none.
#: origin: time (300 classes, 50 annotators and ten subtypes: 45 million cells, 1.3 s a pass and minutes in all; at four
#: million, 5 to 11 s in all); alternatives: none; sensitivity: the largest public sets have 0.13 million.
SUBTYPE_CELLS = 1 << 22

# ---- +em: the choice of a start (docs/decisions/0004) ------------------------------------------------------------

#: Starts are compared on a sample of about so many labels.
#: origin: by design; alternatives: none; sensitivity: not measured.
START_SAMPLE = 200_000

#: Labels that all runs of the comparison pass over together (about a second), and fewest and most passes of each run.
#: origin: by design; alternatives: none; sensitivity: not measured.
START_BUDGET = 200_000_000
START_PASSES = 20, 300

#: Models with one class dropped and another split that are tried in a round, the most rounds, and the least gain of the
#: objective for which there is another round.
#: origin: simulated crowds with a rare class; alternatives: no splits (0 rounds); sensitivity: without splits, 7 of 70
#: such crowds end 0.6 to 5 nats below EM from the truth; numbers of splits and rounds not measured.
MOST_SPLITS, SPLIT_ROUNDS, SPLIT_GAIN = 12, 3, 0.1

#: rob-symnmf, des-symnmf, symnmf: random models among the starts of ``+em``.
#: origin: pairs alone may miss a rare class; alternatives: 0; sensitivity: EM from the pairwise model alone ends 8 to
#: 36 nats below EM from the truth in 3 of 20 crowds with a rare class; other numbers not measured.
RANDOM_MODELS = 8

# ---- propensity --------------------------------------------------------------------------------------------------

#: Labels that the prior of an annotator who may keep silent is worth, and the share of them that names the truth.
#: origin: six public sets of functions, on which ``python -m benchmarks labelling_functions`` chooses the first without
#: the set that is judged (25.9 % error, votes 29.0 %); the second from simulated functions; alternatives: 10 to
#: 400 labels, shares of 0.7 and 0.8; sensitivity, with votes that count twice as much: 27.0, 25.8, 25.8, 26.6, 26.7 and
#: 26.6 % with 10, 20, 50, 100, 200 and 400 labels; on 100 simulated sets 23.3, 23.0, 23.2, 23.1, 23.0 and 23.0 %.
SILENCE_EVIDENCE, SILENCE_ACCURACY = 50.0, 0.9

# ---- open-answers ------------------------------------------------------------------------------------------------

#: Spread of the ease of items.
#: origin: the value that hard-items finds on most public crowds (docs/decisions/0005); alternatives: 0, 0.35, 1.05;
#: sensitivity (``python -m benchmarks open_answers``): on 32 public sets of classes 25.0, 24.8, 25.0 (0.7) and 26.5 %
#: error (votes 25.9 %); on llm_mmlu_pro 34.6, 32.5, 29.3 and 28.5 % (votes 39.2 %), which is why ease is modelled.
EASE_SPREAD = 0.7

#: Prior mean of the crowd's ability: right about 65 % of items of average ease.
#: origin: by design; alternatives: none; sensitivity: worth one annotator.
OPEN_ABILITY = 0.6

#: Pairs of wrong answers in the prior of the concentration, and the share of them that agree.
#: origin: α is 1 to 5 on public crowds with five to thirteen classes; alternatives: 100 pairs; sensitivity: none with
#: hundreds of items (the mean error on public sets of classes was the same).
OPEN_PAIRS, OPEN_AGREE = 10.0, 1.0 / 3.0

# ---- ordinal -----------------------------------------------------------------------------------------------------

#: Places on the scale for each level, where one is not enough: below its middle, in the middle, above it.
#: origin: by design, with public sets in view; alternatives: 5 and 8; sensitivity (``python -m benchmarks ordinal``):
#: llmjudge_trecdl23 is the only public set that takes them; with 1, 3, 5 and 8 places, auto has 51.6, 46.6, 47.2 and
#: 47.8 % errors there (votes 47.3), and a weighted kappa of 0.513, 0.512, 0.500 and 0.493.
SCALE_PLACES = 3

#: Cells of all tables above which every level has one place.
#: origin: memory; alternatives: none; sensitivity: not measured.
SCALE_CELLS = 1 << 22
