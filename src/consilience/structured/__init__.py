"""Consensus when items depend on each other: sequences (hidden Markov) and networks (Potts fields)."""
