"""Benchmarks: figures with targets, measured side by side with peers in one run."""
