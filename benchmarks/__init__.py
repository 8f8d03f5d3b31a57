"""Figures that the project promises, measured side by side with peers in one run."""
