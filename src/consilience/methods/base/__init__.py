"""What all methods share: the registry, the estimator base class, and how a method is run on labels."""
