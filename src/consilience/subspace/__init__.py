"""Clustering of samples that lie on a union of subspaces, at sizes where self-representation cannot run."""
