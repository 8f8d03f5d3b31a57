"""Sufficient statistics of the crowd: how often annotators said what about the same items, and filling their gaps."""

from consilience.moments.cooccurrence import CoOccurrences, pair_moments, triple_moments

__all__ = ["CoOccurrences", "pair_moments", "triple_moments"]
