"""Two crowds with a known truth whose labels contradict the assumptions of the Dawid-Skene model.

:func:`long_tail`
    Many annotators with a few labels each.  A confusion matrix for each has more parameters than there are labels: EM
    overfits, and its labels are worse than votes and nearly certain.
:func:`clones`
    A few good judges and more copies of a weak one.  Copies agree with each other whatever the truth, so a model of
    independent annotators finds them perfect and the judges wrong.

The figures of both, for every method, come from ``python -m benchmarks breaking``.
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.datasets.simulation import Simulation
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene

__all__ = ["clones", "long_tail"]

#: The long tail: as many items as annotators, and as many labels of each item as of each annotator.
_TAIL_SIZE, _TAIL_LABELS, _TAIL_CLASSES = 2000, 5, 4
_TAIL_ACCURACY = (0.5, 0.9)

_CLONE_ITEMS, _CLONE_CLASSES = 2000, 3
_JUDGE_ACCURACY = (0.70, 0.725, 0.75, 0.775, 0.80)
_WEAK_ACCURACY, _COPIES = 0.6, 6


def long_tail(seed: int = 0) -> Simulation:
    """Draw 2000 annotators with five labels each, for 2000 items of four equally frequent classes.

    Every item has five labels too.  An annotator is right with a probability between 0.5 and 0.9, the same for all
    classes; errors are uniform over the wrong classes.

    Examples
    --------
    >>> crowd = long_tail()
    >>> crowd.annotations
    <Annotations: 10000 labels, 2000 items, 2000 annotators, 4 classes>
    >>> set(crowd.annotations.labels_per_annotator.tolist())
    {5}
    """
    rng = np.random.default_rng(seed)
    annotator = _regular(rng, _TAIL_SIZE, _TAIL_LABELS)
    truth = rng.integers(0, _TAIL_CLASSES, _TAIL_SIZE)
    confusions = _even_errors(rng.uniform(*_TAIL_ACCURACY, _TAIL_SIZE), _TAIL_CLASSES)
    label = _draw_labels(rng, confusions, annotator, truth)
    names = [f"a{m}" for m in range(_TAIL_SIZE)]
    return _crowd(annotator, label, truth, confusions, names, ["ordinary"] * _TAIL_SIZE)


def clones(seed: int = 0, flip: float = 0.0) -> Simulation:
    """Draw five good judges and six copies of a weak one, all of whom label 2000 items of three classes.

    The judges are right with probability 0.7 to 0.8, the weak one with probability 0.6.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    flip
        Probability that a copy, independently of the others, gives another class than the original.

    Returns
    -------
    Simulation
        Its roles are "judge" and "copy".  Its model is right about each annotator, but not about their dependence,
        which no Dawid-Skene model can express.

    Examples
    --------
    >>> crowd = clones(flip=0.1)
    >>> crowd.annotations
    <Annotations: 22000 labels, 2000 items, 11 annotators, 3 classes>
    >>> crowd.roles.count("copy")
    6
    """
    if not 0 <= flip <= 1:
        raise ParameterError(f"flip must be a share between 0 and 1, not {flip!r}")
    rng = np.random.default_rng(seed)
    N, K, judges = _CLONE_ITEMS, _CLONE_CLASSES, len(_JUDGE_ACCURACY)
    truth = rng.integers(0, K, N)
    own = _even_errors(np.array([*_JUDGE_ACCURACY, _WEAK_ACCURACY]), K)
    said = _draw_labels(rng, own, np.broadcast_to(np.arange(judges + 1), (N, judges + 1)), truth)
    copies = np.repeat(said[:, -1:], _COPIES, axis=1)
    # both are drawn in full, so that crowds of the same seed differ only in the flips
    flipped = rng.random(copies.shape) < flip
    copies = np.where(flipped, (copies + rng.integers(1, K, copies.shape)) % K, copies)

    turn = _even_errors(np.array([1 - flip]), K)[0]
    confusions = np.concatenate([own[:-1], np.repeat((turn @ own[-1])[None], _COPIES, axis=0)])
    names = [*(f"judge {m}" for m in range(1, judges + 1)), *(f"copy {m}" for m in range(1, _COPIES + 1))]
    annotator = np.broadcast_to(np.arange(judges + _COPIES), (N, judges + _COPIES))
    label = np.concatenate([said[:, :-1], copies], axis=1)
    return _crowd(annotator, label, truth, confusions, names, ["judge"] * judges + ["copy"] * _COPIES)


def _even_errors(accuracy: Floats, K: int) -> Floats:
    """Return confusions with this accuracy and uniform errors."""
    wrong = ((1 - accuracy) / (K - 1))[:, None, None]
    confusions: Floats = np.where(np.eye(K, dtype=bool), accuracy[:, None, None], wrong)
    return confusions


def _regular(rng: np.random.Generator, size: int, degree: int) -> Ints:
    """Draw ``degree`` different annotators for each of ``size`` items, each equally often, (size, degree).

    A column is a permutation that differs from the earlier ones everywhere; after j of them about one in e^j does.
    """
    columns: list[Ints] = []
    while len(columns) < degree:
        column = rng.permutation(size)
        if not any((column == earlier).any() for earlier in columns):
            columns.append(column)
    return np.stack(columns, axis=1)


def _draw_labels(rng: np.random.Generator, confusions: Floats, annotator: Ints, truth: Ints) -> Ints:
    """Draw the labels of these annotators, (N, labels), for items of this truth."""
    # inverse transform: the label is the number of steps of the cumulative column that u has passed
    steps = np.cumsum(confusions, axis=1)[annotator, :-1, truth[:, None]]
    label: Ints = (rng.random(annotator.shape)[:, :, None] > steps).sum(axis=2)
    return label


def _crowd(
    annotator: Ints, label: Ints, truth: Ints, confusions: Floats, names: list[str], roles: list[str]
) -> Simulation:
    N, degree = label.shape
    K = confusions.shape[1]
    model = DawidSkene(np.full(K, 1 / K), confusions, Ids.range(K), Ids(names))
    annotations = Annotations(
        np.arange(N + 1) * degree,
        annotator.ravel(),
        label.ravel(),
        items=Ids.range(N),
        annotators=model.annotators,
        classes=model.classes,
    )
    return Simulation(annotations, truth, model, tuple(roles))
