"""Parameters and what follows from them: posterior, likelihood, sampling, saving and loading."""
