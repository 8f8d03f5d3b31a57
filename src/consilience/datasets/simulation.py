"""Crowds with a known truth, drawn from the Dawid-Skene model, with annotators of several roles.

============== ==========================================================================================
role           label of an item of class k
============== ==========================================================================================
``ordinary``   right with a probability drawn from ``accuracy`` for each class and annotator
``expert``     the same, right with probability 0.9 to 0.99
``spammer``    independent of k: uniform, always the same class, or drawn from the prior
``adversary``  almost always the same wrong class, which depends on k; those who collude agree on it
``specialist`` for one class: recognises nearly all its items, hardly ever gives it to others; else ordinary
============== ==========================================================================================

Errors are distributed over the wrong classes in proportions from a flat Dirichlet distribution, drawn for each
annotator and class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene
from consilience.validation import whole

__all__ = ["Simulation", "class_shares", "simulate"]

_EXPERT_ACCURACY = (0.9, 0.99)
#: Probability that a specialist gives their class to its items, and to others.
_SPECIALIST_HIT = (0.95, 0.995)
_SPECIALIST_SLIP = (0.0, 0.01)
#: Share of an adversary's labels that follow the plan; the rest is right at most half as often as chance.
_ADVERSARY_PLAN = (0.8, 0.95)

_DEFAULT_LABELS_PER_ITEM = 5


@dataclass(frozen=True, eq=False, slots=True)
class Simulation:
    """A simulated crowd and what it was drawn from."""

    annotations: Annotations
    truth: Ints  #: class code of every item, (N,)
    model: DawidSkene  #: the parameters that the labels were drawn from
    roles: tuple[str, ...]  #: the role of every annotator: see the table of the module


def simulate(
    n_items: int = 1000,
    n_annotators: int = 50,
    n_classes: int = 3,
    *,
    labels_per_item: int | None = None,
    label_probability: float | Sequence[float] | None = None,
    prior: Sequence[float] | None = None,
    experts: float = 0.0,
    spammers: float = 0.0,
    adversaries: float = 0.0,
    specialists: float = 0.0,
    colluding: bool = False,
    accuracy: tuple[float, float] = (0.5, 0.9),
    seed: int = 0,
) -> Simulation:
    """Draw a crowd from the Dawid-Skene model.

    Annotators are drawn before items, so that a seed yields the same annotators for any number of items.

    Parameters
    ----------
    n_items, n_annotators, n_classes
        N, M and K.  Items and classes are named 0, 1, …; annotators "a0", "a1", ….
    labels_per_item
        Every item is labelled by this many annotators, drawn at random.
    label_probability
        Instead: every annotator labels an item with this probability (one for all, or one for each).  If
        neither is given, an item has five labels, or as many as there are annotators.
    prior
        Probability of each class, (K,); uniform if not given.
    experts, spammers, adversaries, specialists
        Share of the annotators with this role, between 0 and 1, rounded to a whole number of them; the rest are
        ordinary.  Roles are assigned at random.  In the order of the annotators, spammers alternate between the
        three ways to spam, and specialist j knows class j mod K.
    colluding
        Whether adversaries give the same wrong class; else each has a plan of its own.
    accuracy
        Range of the probability that an ordinary annotator is right.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> crowd = simulate(200, 10, 3, spammers=0.2, seed=1)
    >>> crowd.annotations
    <Annotations: 1000 labels, 200 items, 10 annotators, 3 classes>
    >>> crowd.roles.count("spammer")
    2
    """
    whole("n_items", n_items)
    whole("n_annotators", n_annotators)
    whole("n_classes", n_classes, least=2)
    whole("seed", seed, least=0)
    if labels_per_item is None and label_probability is None:
        labels_per_item = min(_DEFAULT_LABELS_PER_ITEM, n_annotators)
    if labels_per_item is not None:
        whole("labels_per_item", labels_per_item)
    if np.shape(accuracy) != (2,) or not 0 <= accuracy[0] <= accuracy[1] <= 1:
        raise ParameterError(f"accuracy must be a range (low, high) between 0 and 1, not {accuracy!r}")
    if label_probability is not None and np.shape(label_probability) not in ((), (n_annotators,)):
        raise ParameterError(
            f"label_probability must be one number or one for each of the {n_annotators} annotators; "
            f"got shape {np.shape(label_probability)}"
        )
    shares = {"expert": experts, "spammer": spammers, "adversary": adversaries, "specialist": specialists}

    rng = np.random.default_rng(seed)
    class_share = class_shares(prior, n_classes)
    roles = _roles(rng, n_annotators, shares)
    who = {role: np.flatnonzero(roles == role) for role in ("ordinary", *shares)}
    confusions = np.empty((n_annotators, n_classes, n_classes))
    confusions[who["ordinary"]] = _fallible(rng, who["ordinary"].size, n_classes, accuracy)
    confusions[who["expert"]] = _fallible(rng, who["expert"].size, n_classes, _EXPERT_ACCURACY)
    confusions[who["spammer"]] = _spamming(rng, who["spammer"].size, class_share)
    confusions[who["adversary"]] = _adverse(rng, who["adversary"].size, n_classes, colluding)
    confusions[who["specialist"]] = _special(rng, who["specialist"].size, n_classes, accuracy)

    model = DawidSkene(class_share, confusions, Ids.range(n_classes), Ids([f"a{m}" for m in range(n_annotators)]))
    annotations, truth = model.sample(
        n_items, labels_per_item=labels_per_item, label_probability=label_probability, random_state=rng
    )
    return Simulation(annotations, truth, model, tuple(roles.tolist()))


def class_shares(prior: Sequence[float] | None, K: int) -> Floats:
    """Return the probability of each class, (K,): uniform if not given."""
    if prior is None:
        return np.full(K, 1 / K)
    share = np.asarray(prior, np.float64)
    if share.shape != (K,) or not np.all(share >= 0) or not np.isclose(share.sum(), 1.0, atol=1e-6):
        raise ParameterError(f"prior must be {K} probabilities that sum to one, not {prior!r}")
    # numpy's sampler is strict about the sum
    return np.asarray(share / share.sum())


def _roles(rng: np.random.Generator, M: int, shares: dict[str, float]) -> NDArray[np.str_]:
    """Draw a role for every annotator."""
    if not all(0 <= share <= 1 for share in shares.values()) or sum(shares.values()) > 1 + 1e-9:
        given = ", ".join(f"{role}: {share!r}" for role, share in shares.items())
        raise ParameterError(f"shares of roles must lie between 0 and 1 and sum to at most 1; got {given}")
    roles = np.full(M, "ordinary", "<U10")
    used = 0
    for role, share in shares.items():
        # halves round up, so that the sum may exceed M: the last role gets fewer
        until = min(used + int(share * M + 0.5), M)
        roles[used:until] = role
        used = until
    rng.shuffle(roles)
    return roles


def _columns(rng: np.random.Generator, diagonal: Floats, avoided: Ints | None = None) -> Floats:
    """Draw confusions with a given diagonal (n, K).

    A class that is ``avoided``, one for each annotator, is never given by mistake; an annotator without any other
    wrong class is always right.
    """
    n, K = diagonal.shape
    # exponentials, normalised, are a draw from the flat Dirichlet distribution
    errors = rng.standard_exponential((n, K, K))
    every = np.arange(K)
    errors[:, every, every] = 0
    if avoided is not None:
        errors[np.arange(n), avoided] = 0
    total = errors.sum(axis=1)
    diagonal = np.where(total > 0, diagonal, 1.0)
    confusions: Floats = errors * ((1 - diagonal) / np.where(total > 0, total, 1.0))[:, None, :]
    confusions[:, every, every] = diagonal
    return confusions


def _fallible(rng: np.random.Generator, n: int, K: int, accuracy: tuple[float, float]) -> Floats:
    return _columns(rng, rng.uniform(*accuracy, (n, K)))


def _spamming(rng: np.random.Generator, n: int, prior: Floats) -> Floats:
    """Draw confusions whose labels are independent of the truth: all columns are the same."""
    K = prior.size
    same = np.eye(K)[rng.integers(0, K, n)]
    ways = np.stack([np.full((n, K), 1 / K), same, np.broadcast_to(prior, (n, K))])
    said = ways[np.arange(n) % 3, np.arange(n)]
    return np.repeat(said[:, :, None], K, axis=2)


def _adverse(rng: np.random.Generator, n: int, K: int, colluding: bool) -> Floats:
    """Draw confusions that mostly give class k - shift instead of k; those who collude have one shift."""
    shift = rng.integers(1, K, n)
    if colluding:
        shift[:] = shift[:1]
    planned = np.eye(K)[(np.arange(K) + shift[:, None]) % K]
    plan = rng.uniform(*_ADVERSARY_PLAN, (n, 1, 1))
    unplanned = _columns(rng, rng.uniform(0, 0.5 / K, (n, K)))
    return np.asarray(plan * planned + (1 - plan) * unplanned)


def _special(rng: np.random.Generator, n: int, K: int, accuracy: tuple[float, float]) -> Floats:
    known = np.arange(n) % K
    annotator = np.arange(n)
    diagonal = rng.uniform(*accuracy, (n, K))
    diagonal[annotator, known] = rng.uniform(*_SPECIALIST_HIT, n)
    confusions = _columns(rng, diagonal, avoided=known)
    # now and then they give their class whatever the truth
    slip = rng.uniform(*_SPECIALIST_SLIP, (n, K))
    confusions *= (1 - slip)[:, None, :]
    confusions[annotator, known] += slip
    return confusions
