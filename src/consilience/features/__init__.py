"""Features of items and probabilities of classifiers, used together with the labels of annotators."""
