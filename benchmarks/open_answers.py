"""Open answers: time on a simulated panel, error on MMLU-Pro, and on public sets of classes.

The public sets have classes that items share; here their answers are taken as open, which they need not be.
``llm_mmlu_pro`` is the one set of open answers.  The model was developed with both in sight: no figure is of a set left
out.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import consilience as cs
from benchmarks.figures import Figure
from consilience import metrics

SPREADS = (0.0, 0.35, 0.7, 1.05)
WITH_CLASSES = (
    "adult2", "bluebird", "cdr_cid_sentence", "coal_subsidy", "dices350", "dog52", "duck", "fact_eval",
    "judge_mtbench_faireval_llmeval2", "labelme", "leaves", "llmbar", "llmjudge_trecdl23", "metaphor_novelty",
    "movie_reviews", "music", "product", "reuters_amt", "rte", "sentence_polarity", "snow_valence2", "stem_verify",
    "trec", "weather_amt", "ws_rna", "ws_semeval", "ws_spouse", "ws_trec", "ws_yoruba", "ws_youtube", "zencrowd_all",
    "zencrowd_us",
)  # fmt: skip


def panel(n_items: int = 1300, n_annotators: int = 44, n_answers: int = 1200, seed: int = 0) -> pd.DataFrame:
    """Return a panel in which wrong answers are any of the others."""
    rng = np.random.default_rng(seed)
    N, M, K = n_items, n_annotators, n_answers
    truth, accuracy = rng.integers(0, K, N), rng.uniform(0.2, 0.9, M)
    said = np.where(rng.random((N, M)) < accuracy, truth[:, None], rng.integers(0, K, (N, M)))
    columns = {"task": np.repeat(np.arange(N), M), "worker": np.tile(np.arange(M), N)}
    return pd.DataFrame({**columns, "label": [f"answer {k}" for k in said.ravel()]})


def judged(name: str, **options: Any) -> tuple[float, float, float] | None:
    """Return error, expected error (percent) and calibration error; None if the set is not there."""
    folder = Path(os.environ.get("CONSILIENCE_DATA", "")) / name
    files = [next(iter(folder.glob(f"{kind}.csv*")), None) for kind in ("labels", "truth")]
    if None in files:
        return None
    labels, truth = (pd.read_csv(file) for file in files if file)
    columns = dict(zip(("item", "annotator", "label"), labels.columns, strict=False))
    a = cs.Annotations.from_frame(labels, **columns)
    known = truth.set_index(truth.columns[0])[truth.columns[-1]]
    run = cs.aggregate(a, **options)
    codes = run.codes_of_truth({item: known[item] for item in a.items if item in known.index})
    codes[run.n_labels == 0] = -1
    posterior, best, codes = run.judged_by(codes)
    known_items = codes >= 0
    confidence = posterior[np.arange(best.size), best][known_items]
    wrong = 100.0 * float(np.mean(best[known_items] != codes[known_items]))
    calibration = metrics.reliability(posterior, codes, labels=best).calibration_error
    return wrong, 100.0 * float(np.mean(1.0 - confidence)), calibration


def run() -> list[Figure]:
    figures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = panel()
        cs.aggregate(frame[:440], answers="open")  # loads compiled code
        begun = time.perf_counter()
        found = cs.aggregate(frame)
        _ = found.labels, found.annotators, found.diagnosis
        figures.append(Figure("44 annotators, 1,300 items, 1,200 answers", time.perf_counter() - begun, 2.0, unit="s"))
        tried: dict[str, dict[str, Any]] = {"votes": {"method": "majority"}, "one-coin": {"method": "one-coin"}}
        tried |= {f"open-answers, spread {s}": {"answers": "open", "spread": s} for s in SPREADS}
        for method, options in tried.items():
            for kind, names in (("llm_mmlu_pro", ("llm_mmlu_pro",)), ("public sets of classes", WITH_CLASSES)):
                scores = [score for name in names if (score := judged(name, **options)) is not None]
                if scores:
                    error, expected, calibration = np.mean(scores, axis=0).tolist()
                    title = f"{kind} ({len(scores)}), {method}"
                    figures.append(Figure(f"{title}: error", error, unit="%"))
                    figures.append(Figure(f"{title}: expected error", expected, unit="%"))
                    figures.append(Figure(f"{title}: calibration error", calibration, unit=""))
    return figures
