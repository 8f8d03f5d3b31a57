"""The Dawid-Skene model: a class prior and a confusion matrix for every annotator.

An item has a true class k with probability ``prior[k]``; given it, annotator m says i with probability
``confusions[m, i, k]``, independently of the other annotators (Dawid & Skene 1979).

====== ======================== ==========
symbol name                     shape
====== ======================== ==========
λ      ``prior``                (K,)
A_m    ``confusions[m, i, k]``  (M, K, K)
====== ======================== ==========
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import DataError, ParameterError
from consilience.files import load_arrays, save_arrays
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Sweep

__all__ = ["DawidSkene", "set_distribution", "set_names"]

_FORMAT = {"format": "consilience.DawidSkene", "version": 1}


def set_names(model: Any) -> None:
    """Make the names of classes and annotators of a frozen model :class:`Ids`."""
    for name in ("classes", "annotators"):
        if not isinstance(ids := getattr(model, name), Ids):
            object.__setattr__(model, name, Ids(list(ids)))


def set_distribution(model: Any, name: str, axis: int, over: str) -> None:
    """Make an array of a frozen model read-only; raise unless it is nonnegative and sums to one along the axis."""
    values = np.ascontiguousarray(getattr(model, name), np.float64).view()
    if not (np.all(values >= 0) and np.allclose(values.sum(axis=axis), 1.0, atol=1e-6)):
        raise ParameterError(f"{name} must be nonnegative and sum to one over {over}")
    values.flags.writeable = False
    object.__setattr__(model, name, values)


@dataclass(frozen=True, eq=False, slots=True)
class DawidSkene:
    """Parameters of the model, with the names of classes and annotators.

    Parameters
    ----------
    prior
        Probability of each class, (K,).
    confusions
        ``confusions[m, i, k]`` is the probability that annotator m says i of an item of class k; every
        column sums to one, (M, K, K).
    classes, annotators
        Their names.
    """

    prior: Floats
    confusions: Floats
    classes: Ids
    annotators: Ids

    def __post_init__(self) -> None:
        set_names(self)
        K, M = len(self.classes), len(self.annotators)
        prior, confusions = np.shape(self.prior), np.shape(self.confusions)
        if prior != (K,) or confusions != (M, K, K):
            raise ParameterError(
                f"{M} annotators and {K} classes need a prior of shape {(K,)} and confusions of shape {(M, K, K)}, "
                f"not {prior} and {confusions}"
            )
        set_distribution(self, "prior", 0, "the labels")
        set_distribution(self, "confusions", 1, "the labels")

    # ---- labels -----------------------------------------------------------------------------------------

    def posterior(self, annotations: Annotations, weights: Floats | None = None) -> Floats:
        """Return ``Pr(truth of n = k | all labels of n)``, (N, K).

        Annotators are matched by name; an unknown one has the average confusion.  Items with gold are at their gold;
        items without labels are at the prior.  ``weights`` is how many times the labels of each annotator of the model
        count, (M,): once by default.
        """
        return self.posterior_and_likelihood(annotations, weights)[0]

    def log_likelihood(self, annotations: Annotations) -> float:
        """Return the log-probability of all labels (and gold), summed over items."""
        sweep, confusions = self._sweep(annotations, None)
        return sweep(self.prior, confusions).log_likelihood

    def posterior_and_likelihood(self, annotations: Annotations, weights: Floats | None = None) -> tuple[Floats, float]:
        """Return both :meth:`posterior` and :meth:`log_likelihood` from one pass."""
        sweep, confusions = self._sweep(annotations, weights)
        return sweep.posterior(self.prior, confusions)

    def _sweep(self, annotations: Annotations, weights: Floats | None) -> tuple[Sweep, Floats]:
        """Return the pass over these labels, and the confusions of all their annotators."""
        coded = self.recoded(annotations)
        confusions = self.confusions
        if weights is not None:
            confusions = confusions ** np.asarray(weights)[:, None, None]
        if coded.n_annotators > len(self.annotators):
            average = confusions.mean(axis=0, keepdims=True)
            confusions = np.concatenate([confusions, np.repeat(average, coded.n_annotators - len(self.annotators), 0)])
        sweep = Sweep(coded.indptr, coded.annotator, coded.label, coded.gold, coded.n_annotators, coded.n_classes)
        return sweep, confusions

    def recoded(self, annotations: Annotations) -> Annotations:
        """Return the same labels in this model's codes; unknown annotators come after the known ones."""
        if annotations.annotator_ids == self.annotators and annotations.class_ids == self.classes:
            return annotations
        return annotations.recode(self.annotators, self.classes)

    # ---- making data ------------------------------------------------------------------------------------

    def sample(
        self,
        n_items: int,
        *,
        labels_per_item: int | None = None,
        label_probability: float | Sequence[float] | None = None,
        random_state: Any = None,
    ) -> tuple[Annotations, Ints]:
        """Draw a crowd from the model.

        Parameters
        ----------
        n_items
            Number of items.
        labels_per_item
            Every item is labelled by this many annotators, drawn without replacement.
        label_probability
            Instead: every annotator labels an item with this probability (one for all, or one for each).
            With neither, every annotator labels every item.
        random_state
            Seed or generator.

        Returns
        -------
        annotations, truth
            The labels, and the class code of every item.
        """
        rng = np.random.default_rng(random_state)
        M, K = len(self.annotators), self.prior.size
        if labels_per_item is not None and label_probability is not None:
            raise ParameterError("give labels_per_item or label_probability, not both")
        if labels_per_item is not None:
            item, annotator = _fixed_degree(rng, n_items, M, labels_per_item)
        else:
            given = np.asarray(1.0 if label_probability is None else label_probability, float)
            if given.shape not in ((), (M,)) or not np.all((given >= 0) & (given <= 1)):
                raise ParameterError(
                    f"label_probability must be one number from 0 to 1, or one for each of {M} annotators"
                )
            p = np.broadcast_to(given, (M,))
            item, annotator = _bernoulli(rng, n_items, p)
        truth = rng.choice(K, n_items, p=self.prior / self.prior.sum())
        # inverse transform sampling: the label is the number of cumulative probabilities below u
        cumulative = np.cumsum(self.confusions, axis=1)
        u = rng.random(item.size)
        label = np.zeros(item.size, np.int64)
        for i in range(K - 1):
            label += u > cumulative[annotator, i, truth[item]]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=n_items))])
        names: Any = {"items": Ids.range(n_items), "annotators": self.annotators, "classes": self.classes}
        return Annotations(indptr, annotator, label, **names), truth

    # ---- comparing models -------------------------------------------------------------------------------

    def permute(self, order: Sequence[int] | Ints) -> DawidSkene:
        """Return the model whose true class k is this one's ``order[k]``; labels keep their meaning."""
        order = np.asarray(order)
        return DawidSkene(self.prior[order], self.confusions[:, :, order], self.classes, self.annotators)

    def align(self, to: DawidSkene | Literal["classes"] = "classes") -> DawidSkene:
        """Return the model with its true classes reordered; an unsupervised fit leaves them in any order.

        To another model: the order that minimises the distance of all annotators' confusions.  To the classes: the
        order with the largest total agreement of annotators with the truth.  Both are found by the Hungarian method.
        """
        if isinstance(to, DawidSkene):
            if self.confusions.shape != to.confusions.shape:
                raise ParameterError("only models with the same annotators and classes can be aligned")
            # cost[k, j] = Σ_m ‖A_m(:, j) - B_m(:, k)‖²
            cost = (
                np.einsum("mik,mik->k", to.confusions, to.confusions)[:, None]
                + np.einsum("mij,mij->j", self.confusions, self.confusions)[None, :]
                - 2 * np.einsum("mik,mij->kj", to.confusions, self.confusions)
            )
        else:
            cost = -self.confusions.sum(axis=0)
        cheapest = cost.argmin(axis=1)
        if np.unique(cheapest).size == cheapest.size:  # no two classes compete: no need for SciPy's optimisers
            return self.permute(cheapest)
        from scipy.optimize import linear_sum_assignment

        return self.permute(linear_sum_assignment(cost)[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DawidSkene):
            return NotImplemented
        return bool(
            self.classes == other.classes
            and self.annotators == other.annotators
            and np.array_equal(self.prior, other.prior)
            and np.array_equal(self.confusions, other.confusions)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<DawidSkene: {len(self.annotators)} annotators, {len(self.classes)} classes>"

    # ---- files ------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file; names are stored in it as JSON, never as pickles."""
        names = {"classes": self.classes.to_json(), "annotators": self.annotators.to_json()}
        save_arrays(path, {**_FORMAT, **names}, prior=self.prior, confusions=self.confusions)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DawidSkene:
        """Read what :meth:`save` wrote."""
        names, arrays = load_arrays(path, _FORMAT, ("prior", "confusions"), "a model written by DawidSkene.save")
        classes, annotators = (Ids.from_json(names[of]) for of in ("classes", "annotators"))
        return cls(arrays["prior"], arrays["confusions"], classes, annotators)


def _fixed_degree(rng: np.random.Generator, n_items: int, M: int, degree: int) -> tuple[Ints, Ints]:
    """Draw ``degree`` different annotators for every item."""
    if not 1 <= degree <= M:
        raise ParameterError(f"labels_per_item must lie between 1 and the number of annotators, {M}; got {degree}")
    # Redrawing until all differ is fast if degree² is small compared with M; otherwise shuffle all annotators.
    if degree * degree > 2 * M:
        rows = max(1, 10**6 // M)
        parts = [np.argsort(rng.random((min(rows, n_items - n), M)), axis=1) for n in range(0, n_items, rows)]
        chosen = np.concatenate([part[:, :degree] for part in parts])
    else:
        chosen = rng.integers(0, M, (n_items, degree))
        again = np.arange(n_items)
        while again.size:
            ordered = np.sort(chosen[again], axis=1)
            again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
            chosen[again] = rng.integers(0, M, (again.size, degree))
    return np.repeat(np.arange(n_items), degree), chosen.ravel()


def _bernoulli(rng: np.random.Generator, n_items: int, p: Floats) -> tuple[Ints, Ints]:
    """Draw who labels what: annotator m each item with probability ``p[m]``, without an items × annotators array."""
    items = [
        np.sort(rng.choice(n_items, rng.binomial(n_items, p[m]), replace=False, shuffle=False)) for m in range(p.size)
    ]
    item = np.concatenate(items)
    annotator = np.repeat(np.arange(p.size), [chosen.size for chosen in items])
    order = np.argsort(item, kind="stable")
    if order.size == 0:
        raise DataError("nobody labelled anything; raise label_probability")
    return item[order], annotator[order]
