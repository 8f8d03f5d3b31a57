"""Kinds of answers: what an answer means, and the models for those that are not classes."""
