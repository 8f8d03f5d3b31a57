"""The public sets of nominal labels, in three families, and how labels and probabilities are scored on them."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from consilience import metrics
from consilience.data.annotations import Annotations
from consilience.datasets import load
from consilience.kernels._arrays import Codes, Floats
from consilience.runs.consensus import TIE

__all__ = ["CROWDS", "ELEVEN", "FAMILIES", "Crowd", "Score", "crowd", "expected_error", "judge", "skipped"]

#: The crowds on which all methods are compared.
ELEVEN = (
    "bluebird",
    "dog52",
    "rte",
    "trec",
    "labelme",
    "adult2",
    "sentence_polarity",
    "music",
    "zencrowd_us",
    "product",
    "fact_eval",
)
CROWDS = (
    *ELEVEN,
    "duck",
    "weather_amt",
    "zencrowd_all",
    "leaves",
    "reuters_amt",
    "dices350",
    "metaphor_novelty",
    "stem_verify",
    "cdr_cid_sentence",
    "snow_valence2",
)
FAMILIES = {
    "crowds": CROWDS,
    "functions": ("ws_youtube", "ws_trec", "ws_yoruba", "ws_rna", "ws_semeval", "ws_spouse"),
    "panels": ("llmbar", "judge_mtbench_faireval_llmeval2", "llmjudge_trecdl23", "llm_mmlu_pro"),
}


class Crowd(NamedTuple):
    """Labels, and the class code of every item (-1: not scored)."""

    annotations: Annotations
    truth: Codes

    @property
    def judged(self) -> int:
        """Number of scored items."""
        return int((self.truth >= 0).sum())


class Score(NamedTuple):
    """Scores of a method on a crowd."""

    error: float  #: percent wrong
    calibration: float  #: expected calibration error, 15 bins
    log_loss: float  #: nats
    seconds: float
    stopped: bool = False  #: stopped at the time limit


def skipped() -> bool:
    """Return whether the data are missing, with a message."""
    if os.environ.get("CONSILIENCE_DATA"):
        return False
    print("CONSILIENCE_DATA is not set: skipped")
    return True


@cache
def crowd(name: str) -> Crowd:
    """Load a set; only items with a label are scored."""
    loaded: Any = load(name)
    a: Annotations = loaded.annotations
    truth = a.codes_of_truth(loaded.truth, strict=False)
    truth[a.labels_per_item == 0] = -1
    return Crowd(a, truth)


def judge(posterior: Floats, best: Codes, truth: Codes, seconds: float = 0.0, stopped: bool = False) -> Score:
    """Compare labels and probabilities with the truth."""
    return Score(
        metrics.error_rate(best, truth),
        metrics.expected_calibration_error(posterior, truth, labels=best),
        metrics.log_loss(posterior, truth),
        seconds,
        stopped,
    )


def expected_error(scores: Floats, truth: Codes) -> float:
    """Return the percentage of wrong labels if the highest score decides, and chance between equal ones."""
    scores, truth = scores[truth >= 0], truth[truth >= 0]
    top = scores >= scores.max(axis=1, keepdims=True) - TIE
    named = truth < scores.shape[1]  # a class that nobody names is always wrong
    right = np.where(named, top[np.arange(truth.size), np.where(named, truth, 0)] / top.sum(axis=1), 0.0)
    return 100.0 * (1.0 - float(right.mean()))
