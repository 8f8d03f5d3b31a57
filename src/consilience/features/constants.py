"""Constants of features and classifiers that influence results: value, origin, alternatives, sensitivity."""

from __future__ import annotations

# ---- a classifier as a source --------------------------------------------------------------------------------------

#: Smallest probability that a classifier is taken to state.
#: origin: by design; alternatives: none; sensitivity: not measured.
LEAST_PROBABILITY = 1e-6

#: Precision of the normal prior of a classifier's weight, and the largest weight.
#: origin: as for shares in ``auto``; alternatives: none; sensitivity: not measured, small beside many items.
WEIGHT_PRECISION, LARGEST_WEIGHT = 3.0, 8.0

#: Pseudo-items in every row of the classifiers' confusion: on the diagonal, and spread over the classes.
#: origin: as for annotators; alternatives: no confusion; sensitivity: music 20.1 instead of 19.4 %.
SOURCE_DIAGONAL, SOURCE_SMOOTHING = 3.0, 1.0

#: EM steps for the confusion in each pass.
#: origin: a classifier that swaps classes needs several; alternatives: 3; sensitivity: none where classes agree.
CONFUSION_STEPS = 10

# ---- annotators beside it ------------------------------------------------------------------------------------------

#: Pseudo-labels in every column of an annotator's confusion: on the diagonal, and spread over the classes.
#: origin: the prior of ``auto``; alternatives: shrinkage to the crowd's habits; sensitivity: music 18.7 to 20.7 %.
DIAGONAL, SMOOTHING = 3.0, 1.0

#: Passes over labels and classifiers for each fit of the classifiers, at most.
#: origin: by design; alternatives: 1, 2, 3; sensitivity: at most 0.3 points on music and digits.
PASSES = 30

# ---- cross-fitting -------------------------------------------------------------------------------------------------

#: Folds of the items, and fits of the classifier to each.
#: origin: time; alternatives: 5 and 10 folds, 8 and 12 rounds; sensitivity: within 0.7 points on music, 0.3 on digits.
FOLDS, ROUNDS = 3, 4

#: Share of labels that change in a round, below which the classifiers are not fitted again.
#: origin: time; alternatives: none; sensitivity: not measured.
SAME_LABELS = 0.01

#: Probability from which on a class is among the soft labels of an item.
#: origin: time; alternatives: none; sensitivity: not measured.
LEAST_SOFT = 0.05

#: Inverse penalty of the default classifier: of standardised columns, and of words or other sparse features.
#: origin: by design; alternatives: 0.01, 0.03, 1 for columns; sensitivity: within 0.4 points on music, 0.2 on digits.
COLUMN_C, TEXT_C = 0.1, 10.0

#: Neighbours of an item, and the number of items above which neighbours are not searched.
#: origin: by design and time; alternatives: no neighbours; sensitivity: digits 3.8 instead of 3.1 %, music the same.
NEIGHBOURS, MOST_FOR_NEIGHBOURS = 10, 20_000

# ---- when classifiers count ----------------------------------------------------------------------------------------

#: Items whose labels are predicted to find out whether classifiers help, at most, and rounds of ascent for each fold.
#: origin: time; alternatives: none; sensitivity: not measured.
MOST_HELD_OUT, HELD_OUT_STEPS = 20_000, 5

#: Standard errors by which held-out labels must be more probable given the classifiers, and by which they may be less
#: probable given the classifiers and the other labels.
#: origin: convention; alternatives: none; sensitivity: random features never passed on nine sets.
CLEAR_GAIN = 2.0
