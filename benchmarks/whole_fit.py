"""A whole fit beside crowd-kit's, both to the same likelihood."""

from __future__ import annotations

import time
import warnings

import numpy as np

import consilience as cs
from benchmarks.crowds import crowd
from benchmarks.figures import Figure, best_of
from consilience.fitting.fit import Fit
from consilience.methods.ds_em import dawid_skene_em


def compare(n_labels: int, n_annotators: int) -> list[Figure]:
    from crowdkit.aggregation import DawidSkene

    a = crowd(n_labels, n_annotators, 4)
    frame = a.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.perf_counter()
        theirs = DawidSkene(n_iter=1000, tol=1e-7).fit(frame)
        their_seconds = time.perf_counter() - begun
    errors = theirs.errors_.reindex(
        index=[(w, i) for w in a.annotators for i in a.classes], columns=list(a.classes), fill_value=0.0
    )
    confusions = errors.to_numpy().reshape(a.n_annotators, 4, 4)
    prior = theirs.priors_.reindex(list(a.classes)).to_numpy()
    model = cs.DawidSkene(
        prior / prior.sum(), confusions / confusions.sum(axis=1, keepdims=True), a.class_ids, a.annotator_ids
    )
    their_likelihood = model.log_likelihood(a)
    goal = their_likelihood - 1e-6 * abs(their_likelihood)

    def fit_as_far() -> Fit:
        """Ours, until the likelihood is theirs (relative 1e-6), with labels."""
        fitted = dawid_skene_em(a, tol=0, callback=lambda state: state.objective >= goal)
        assert fitted.choice.best.size == a.n_items
        return fitted

    fitted = fit_as_far()
    our_seconds = best_of(25, fit_as_far)
    gap = (their_likelihood - fitted.log_likelihood) / abs(their_likelihood)
    their_labels = theirs.labels_.reindex(a.items).to_numpy()
    ours = a.classes[fitted.choice.best]
    size = f"{n_labels:.0e} labels"
    return [
        Figure(
            f"whole fit to the same likelihood, {size}: crowd-kit's time / ours",
            their_seconds / our_seconds,
            200,
            up=True,
        ),
        Figure(f"whole fit, {size}: how far our likelihood is below theirs (relative)", gap, 1e-6),
        Figure(f"whole fit, {size}: share of labels that differ", float(np.mean(their_labels != ours)), 0.001),
    ]


def run() -> list[Figure]:
    return compare(10**5, 200) + compare(10**6, 1000)
