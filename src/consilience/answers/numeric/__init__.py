"""Numbers as answers: annotators with bias, scale and noise; see docs/numeric.md."""
