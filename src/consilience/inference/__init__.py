"""Figures of a whole population from a consensus and some known answers, with valid intervals."""
