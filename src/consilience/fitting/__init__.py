"""One ascent loop for EM and variational Bayes, its acceleration, M-steps and refinement."""
