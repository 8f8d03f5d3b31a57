"""Sufficient statistics of a crowd: label counts of pairs and triples of annotators, and imputation of missing ones."""

from consilience.moments.cooccurrence import CoOccurrences, pair_moments, triple_moments

__all__ = ["CoOccurrences", "pair_moments", "triple_moments"]
