"""Factorisations of matrices: algorithms on arrays, of use outside crowdsourcing too."""
