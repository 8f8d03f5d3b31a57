"""Seconds of a whole ``ds-em`` fit: with SQUAREM, without acceleration, and with crowd-kit's DawidSkene.

Two comparisons:

* to the same tolerance, 1e-7.  Ours is the relative change of the log-likelihood in one EM step, crowd-kit's the change
  of its lower bound per label.  The three fits run in turn, and the median of the repetitions counts.  crowd-kit also
  stops when its bound falls, on some crowds after two or three iterations: the iterations are printed, and a ratio
  means little where they are so few;
* to the same likelihood (relative 1e-6): crowd-kit runs to its tolerance, ours until it is as likely.
"""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import consilience as cs
from benchmarks.crowds import crowd
from benchmarks.figures import Figure, best_of
from consilience.data.annotations import Annotations
from consilience.datasets import load
from consilience.fitting.fit import Fit
from consilience.methods.ds_em import dawid_skene_em

CROWDS = "rte", "trec", "adult2", "product", "sentence_polarity", "fact_eval"
TOLERANCE = 1e-7
#: Repetitions of our fits, and of crowd-kit's; one of crowd-kit's from 10^6 labels on, where it takes half a minute.
OURS, THEIRS = 15, 3


def frame_of(a: Annotations) -> Any:
    return a.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})


def crowd_kit_fit(frame: Any) -> Any:
    from crowdkit.aggregation import DawidSkene

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DawidSkene(n_iter=1000, tol=TOLERANCE).fit(frame)


def our_fit(a: Annotations, **options: Any) -> Fit:
    """Fit and choose the labels, as crowd-kit does."""
    fit = dawid_skene_em(a, **options)
    assert fit.choice.best.size == a.n_items
    return fit


def same_tolerance(name: str, a: Annotations) -> list[Figure]:
    frame = frame_of(a)
    fits: dict[str, Callable[[], Any]] = {
        "SQUAREM": partial(our_fit, a, tol=TOLERANCE),
        "unaccelerated EM": partial(our_fit, a, tol=TOLERANCE, accelerate=False),
        "crowd-kit": partial(crowd_kit_fit, frame),
    }
    fits["SQUAREM"]()  # load and compile everything
    repeats = dict.fromkeys(fits, OURS) | {"crowd-kit": THEIRS if a.n_labels < 10**6 else 1}
    times: dict[str, list[float]] = {fit: [] for fit in fits}
    iterations: dict[str, int] = {}
    for repetition in range(OURS):
        for fit, work in fits.items():
            if repetition < repeats[fit]:
                begun = time.perf_counter()
                done = work()
                times[fit].append(time.perf_counter() - begun)
                iterations[fit] = done.iterations if isinstance(done, Fit) else len(done.loss_history_)
    seconds = {fit: statistics.median(taken) for fit, taken in times.items()}
    figures = [
        Figure(f"whole fit, {name}: {fit} ({iterations[fit]} iterations)", 1e3 * value, unit="ms")
        for fit, value in seconds.items()
    ]
    figures += [
        Figure(f"whole fit, {name}: {fit} / SQUAREM", seconds[fit] / seconds["SQUAREM"], unit="x")
        for fit in ("unaccelerated EM", "crowd-kit")
    ]
    print(*figures, sep="\n", flush=True)
    return figures


def same_likelihood(n_labels: int, n_annotators: int) -> list[Figure]:
    a = crowd(n_labels, n_annotators, 4)
    frame = frame_of(a)
    begun = time.perf_counter()
    theirs = crowd_kit_fit(frame)
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

    fit_as_far = partial(our_fit, a, tol=0, callback=lambda state: state.objective >= goal)
    fit = fit_as_far()
    our_seconds = best_of(25, fit_as_far)
    gap = (their_likelihood - fit.log_likelihood) / abs(their_likelihood)
    their_labels = theirs.labels_.reindex(a.items).to_numpy()
    our_labels = a.classes[fit.choice.best]
    size = f"{n_labels:.0e} labels"
    return [
        Figure(
            f"whole fit to the same likelihood, {size}: crowd-kit's time / ours",
            their_seconds / our_seconds,
            200,
            up=True,
        ),
        Figure(f"whole fit, {size}: our likelihood below crowd-kit's (relative)", gap, 1e-6),
        Figure(f"whole fit, {size}: share of labels that differ", float(np.mean(their_labels != our_labels)), 0.001),
    ]


def run() -> list[Figure]:
    figures = same_likelihood(10**5, 200) + same_likelihood(10**6, 1000)
    if os.environ.get("CONSILIENCE_DATA"):
        for name in CROWDS:
            public: Any = load(name)
            figures += same_tolerance(name, public.annotations)
    else:
        print("CONSILIENCE_DATA is not set: public crowds are skipped")
    return figures + same_tolerance("1e6 labels simulated", crowd(10**6, 1000, 4))
