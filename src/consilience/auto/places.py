"""What ``auto`` asks of all labels, which may be in memory or on disk.

Copies, subtypes, silence and the correlation of errors are judged on a sample, and the pool labels items block by
block.  Only the fit of the model needs all labels: sums over them, one pass a step.  So labels that do not fit in
memory get the same consensus, with two exceptions: if silence is informative, its model needs all labels in memory, and
very many known answers are sampled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from consilience.auto import constants
from consilience.auto.model import sample_of
from consilience.data.annotations import Annotations
from consilience.diagnose.silence import Silence
from consilience.engine.passes import Labels, Passes, passes_of
from consilience.exceptions import DataWarning, MethodError
from consilience.fitting.fit import Caution
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene

__all__ = ["log_likelihood", "most_labels", "predicted", "sample_and_known", "sampled_items", "silence_on_disk"]


def most_labels(data: Labels) -> int:
    """Return the largest number of labels of one item."""
    return data.survey.longest if isinstance(data, Passes) else int(data.labels_per_item.max(initial=0))


def log_likelihood(data: Labels, model: DawidSkene) -> float:
    """Return the log-probability of all labels."""
    if isinstance(data, Passes):
        return data.sweep(model.prior, model.confusions).log_likelihood
    return model.log_likelihood(data)


def predicted(data: Labels, predictor: Callable[[Annotations], tuple[Floats, Floats]]) -> tuple[Floats, Floats | None]:
    """Return probabilities and vote shares of every item, (N, K); from disk (0, K) and None: they follow in blocks."""
    return (np.empty((0, data.n_classes)), None) if isinstance(data, Passes) else predictor(data)


def sampled_items(data: Labels) -> Ints:
    """Return the items of the sample and those of known truth, of these at most as many as a sample has labels."""
    known = passes_of(data).known_items
    known = known[:: max(1, -(-known.size // constants.SAMPLE))]
    step = -(-data.n_labels // constants.SAMPLE)
    return np.union1d(known, np.arange(0, data.n_items, max(step, 1)))


def sample_and_known(data: Labels) -> Annotations:
    """Return the labels of :func:`sampled_items`."""
    sample = sample_of(data)
    return sample if sample is data else passes_of(data).select(sampled_items(data))


def silence_on_disk(asked: bool, heard: Silence | None, n_labels: int) -> tuple[Caution, ...]:
    """Return the caution that informative silence is not used for labels on disk; raise if it was asked for."""
    if asked:
        raise MethodError(
            f"silence='informative' needs all labels in memory, where these {n_labels} do not fit. "
            "Allow more memory, or aggregate some of the items"
        )
    if heard is None or not heard.informative:
        return ()
    sentence = (
        "who labelled an item seems to say something about it, but the model for that needs all labels in memory, "
        f"where these {n_labels} do not fit: silence counts for nothing here. Allow more memory, or aggregate some of "
        "the items"
    )
    return ((sentence, DataWarning),)
