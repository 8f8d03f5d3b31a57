"""Joint distributions of discrete variables, learned from tables with missing entries."""
