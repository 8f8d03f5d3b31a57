"""Constants of features and classifiers that influence results: value, origin, alternatives, sensitivity."""

from __future__ import annotations

# ---- a classifier as a source --------------------------------------------------------------------------------------

#: Smallest probability that a classifier is taken to state.
LEAST_PROBABILITY = 1e-6

#: Precision of the normal prior of a classifier's weight, and the largest weight.
WEIGHT_PRECISION, LARGEST_WEIGHT = 3.0, 8.0

#: Pseudo-items in every row of the classifiers' confusion: on the diagonal, and spread over the classes.
SOURCE_DIAGONAL, SOURCE_SMOOTHING = 3.0, 1.0

#: EM steps for the confusion in each pass.
CONFUSION_STEPS = 10

# ---- annotators beside it ------------------------------------------------------------------------------------------

#: Pseudo-labels in every column of an annotator's confusion: on the diagonal, and spread over the classes.
DIAGONAL, SMOOTHING = 3.0, 1.0

#: Passes over labels and classifiers for each fit of the classifiers, at most.
PASSES = 30

# ---- cross-fitting -------------------------------------------------------------------------------------------------

#: Folds of the items, and fits of the classifier to each.
FOLDS, ROUNDS = 3, 4

#: Share of labels that change in a round, below which the classifiers are not fitted again.
SAME_LABELS = 0.01

#: Probability from which on a class is among the soft labels of an item.
LEAST_SOFT = 0.05

#: Inverse penalty of the default classifier: of standardised columns, and of words or other sparse features.
COLUMN_C, TEXT_C = 0.1, 10.0

#: Neighbours of an item, and the number of items above which neighbours are not searched.
NEIGHBOURS, MOST_FOR_NEIGHBOURS = 10, 20_000

# ---- when classifiers count ----------------------------------------------------------------------------------------

#: Items whose labels are predicted to find out whether classifiers help, at most, and rounds of ascent for each fold.
MOST_HELD_OUT, HELD_OUT_STEPS = 20_000, 5

#: Standard errors by which held-out labels must be more probable with the classifiers.
CLEAR_GAIN = 2.0
