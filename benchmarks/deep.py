"""Table 9 and Fig. 4 of Ibrahim & Fu (2022) on the public crowd that has features here: music.

Errors of CrowdLayer and DL-MV over many trials (``DEEP_TRIALS``, 100), next to rob-symnmf+em and CrowdClassifier.  The
paper has LabelMe's images, which are not among the data; only the algorithms and 50 epochs are as there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import consilience as cs
from benchmarks.features import music, quiet
from benchmarks.figures import Figure
from benchmarks.public import skipped

TRIALS = int(os.environ.get("DEEP_TRIALS", "100"))


def run() -> list[Figure]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from consilience.deep import CrowdLayer, MajorityNetwork

    if skipped():
        return []
    a, X, truth = music()
    X = StandardScaler().fit_transform(X)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))
    codes: Any = {name: k for k, name in enumerate(a.classes)}
    ways: dict[str, Callable[[int], Any]] = {
        "rob-symnmf+em": lambda s: cs.aggregate(a, "rob-symnmf+em", seed=s).choice.best,
        "CrowdLayer, matrix": lambda s: CrowdLayer(random_state=s).fit(X, a).predict_proba(X).argmax(axis=1),
        "CrowdLayer, vector": lambda s: (
            CrowdLayer(variant="vector", random_state=s).fit(X, a).predict_proba(X).argmax(axis=1)
        ),
        "DL-MV": lambda s: MajorityNetwork(random_state=s).fit(X, a).predict_proba(X).argmax(axis=1),
        "CrowdClassifier": lambda s: np.array(
            [codes[k] for k in cs.CrowdClassifier(classifier, random_state=s).fit(X, a).labels_]
        ),
    }
    edges = np.arange(12, 44, 2)
    figures = []
    title = f"music, {TRIALS} trials"
    print(f"{title:22s} {'mean':>5} {'sd':>5} {'seconds':>8}   histogram from {edges[0]} to {edges[-1]} % by 2")
    for name, work in ways.items():
        begun = time.perf_counter()
        errors = np.array([100.0 * np.mean(quiet(work, seed) != truth) for seed in range(TRIALS)])
        seconds = (time.perf_counter() - begun) / TRIALS
        counts = " ".join(f"{n:3d}" for n in np.histogram(np.clip(errors, edges[0], edges[-1]), edges)[0])
        print(f"{name:22s} {errors.mean():5.2f} {errors.std():5.2f} {seconds:8.2f}   {counts}", flush=True)
        figures.append(Figure(f"music, {name}: mean error %", float(errors.mean())))
    return figures
