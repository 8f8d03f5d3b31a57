"""The default method: votes and a model of the annotators, how they are combined, and the estimated error."""
