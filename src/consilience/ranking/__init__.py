"""Pairwise comparisons: which of two items is better, who judges well, and how sure the ranking is."""
