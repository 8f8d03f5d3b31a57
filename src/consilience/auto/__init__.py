"""The default method: candidate models, how they are combined, and how confidence is calibrated."""
