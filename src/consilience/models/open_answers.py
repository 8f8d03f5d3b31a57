r"""Answers whose options differ from item to item: an accuracy for every annotator, and an urn of wrong answers.

Multiple choice where letters mean nothing across questions, or free text: an answer to one item says nothing about
another, so there are no classes and no confusion matrices.  Annotator m is right about item n with probability

    p_m(x) = 1 / (1 + exp(-u_m - σ x)),        x ~ N(0, 1) for each item: how easy it is for everybody.

Wrong answers are not spread evenly: some are popular.  They come from an urn (Blackwell & MacQueen 1973).  After w
wrong answers to an item, of which n_c are c, the next wrong one is c with probability n_c / (α + w) and a new one with
α / (α + w).  So the w wrong labels of an item, in groups of n_1, n_2, … equal ones, have probability

    Γ(α) / Γ(α + w) · ∏_c α Γ(n_c).

If O options are known, each wrong one has weight θ = α / (O - 1) in a Dirichlet distribution, and the probability is

    Γ(α) / Γ(α + w) · (O - 1)! / (O - 1 - c)! · ∏_c Γ(θ + n_c) / Γ(θ)      for c different wrong answers.

The truth is one of the answers given, or none of them, all equally likely beforehand.  What is modelled is which labels
of an item are equal, so the names of its answers do not matter.

Two wrong answers agree with probability s = 1 / (1 + α), or (1 + θ) / (1 + α).  Where wrong answers agree, annotators
err together in other ways as well; so L labels count as L w independent ones, w = 1 / (1 + (L - 1) s / 2) but at least
a quarter (Kish 1965), and the posterior is raised to the power w.  That changes no answer.

====== ===================== ========
symbol name                  shape
====== ===================== ========
u      ``ability``           (M,)
α      ``concentration``     scalar
σ      ``spread``            scalar
s      ``same_error``        scalar
====== ===================== ========

D. Blackwell and J. B. MacQueen, "Ferguson distributions via Pólya urn schemes", Annals of Statistics 1 (1973).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import DataError
from consilience.files import load_arrays, save_arrays
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.open_answers import Candidates, OpenSums, UrnTables, candidates_of, open_pass
from consilience.models.dawid_skene import set_names
from consilience.models.ease import Ease

__all__ = ["OpenModel", "OpenPass", "OpenPosterior", "urn_tables"]

_FORMAT = {"format": "consilience.OpenModel", "version": 1}
_NUMBERS = ("crowd", "concentration", "spread", "options", "most_answers")
#: Probabilities that are equal to so many digits tie.
_DIGITS = 9
#: The share of the agreement of wrong answers that is taken for the correlation of errors, and the least weight of a
#: label.  origin: 14 public sets with three classes or more (mean calibration error 0.16; 0.18 with a share of a
#: quarter, 0.15 with three quarters), the least weight from auto (docs/decisions/0005); alternatives: no least weight
#: (0.12 there, but 0.16 instead of 0.08 on llm_mmlu_pro, which decided this).
_CORRELATION, _LEAST_WEIGHT = 0.5, 0.25


def urn_tables(concentration: float, options: int | None, most: int) -> UrnTables:
    """Return the log-probabilities of wrong answers, for items with up to ``most`` labels."""
    from scipy.special import gammaln

    n = np.arange(most + 1.0)
    labels = gammaln(concentration) - gammaln(concentration + n)
    if options is None:
        return UrnTables(labels, np.append(0.0, gammaln(n[1:])), n * np.log(concentration))
    theta = concentration / (options - 1)
    with np.errstate(invalid="ignore"):
        kinds = np.where(n < options, gammaln(options) - gammaln(np.maximum(options - n, 1.0)), -np.inf)
    return UrnTables(labels, gammaln(theta + n) - gammaln(theta), kinds)


class OpenPass:
    """The labels of one set of items with their candidates, for repeated passes."""

    def __init__(self, annotations: Annotations, spread: float, options: int | None) -> None:
        a = self.annotations = annotations
        self.candidates = candidates_of(a.indptr, a.label, a.gold, a.n_classes)
        ease = Ease(spread, np.zeros(1, np.int64))
        self.nodes, self.log_shares = spread * ease.nodes, np.log(ease.shares)
        self.options, self.most = options, int(a.labels_per_item.max(initial=0))
        many = np.diff(self.candidates.first)
        self.most_answers = int(many.max(initial=1))
        if options is not None and self.most_answers > options:
            item = a.item_ids[int(many.argmax())]
            raise DataError(f"item {item!r} has {self.most_answers} different answers, but options={options}")

    def __call__(self, ability: Floats, concentration: float) -> tuple[Floats, Floats, OpenSums]:
        """Return the probability of every candidate and of none, and the sums of the pass."""
        tables = urn_tables(concentration, self.options, self.most)
        a = self.annotations
        return open_pass(a.indptr, a.annotator, self.candidates, ability, self.nodes, self.log_shares, tables)


@dataclass(frozen=True, eq=False)
class OpenPosterior:
    """Candidates with their probabilities."""

    candidates: Candidates
    probability: Floats  #: of each candidate, (C,)
    none: Floats  #: that no candidate is right, (N,)

    def tempered(self, weight: Floats) -> OpenPosterior:
        """Return the posterior raised to a power for each item, (N,)."""
        item, N = self.candidates.item, self.none.size
        top = self.none.copy()
        np.maximum.at(top, item, self.probability)
        p, none = (self.probability / top[item]) ** weight[item], (self.none / top) ** weight
        total = np.bincount(item, p, N) + none
        return OpenPosterior(self.candidates, p / total[item], none / total)

    def two_best(self) -> tuple[Ints, Ints]:
        """Return the two most probable candidates of every item, -1 where there is none, (N,) both.

        Ties go to the answer with more labels, then to the one that comes first in the order of answers.
        """
        c = self.candidates
        order = np.append(np.lexsort((c.answer, -c.size, -np.round(self.probability, _DIGITS), c.item)), -1)
        many = np.diff(c.first)
        return np.where(many > 0, order[c.first[:-1]], -1), np.where(many > 1, order[c.first[1:] - many + 1], -1)


@dataclass(frozen=True, eq=False)
class OpenModel:
    """Parameters of the model, with the names of the annotators and of all answers that were fitted."""

    ability: Floats  #: log-odds that an annotator is right about an item of average ease, (M,)
    crowd: float  #: that of an unknown annotator
    concentration: float  #: α: the larger, the less wrong answers agree
    spread: float  #: σ: how much items differ in ease
    options: int | None  #: number of options of each item, if known
    most_answers: int  #: the largest number of different answers to one of the items that were fitted
    classes: Ids
    annotators: Ids

    def __post_init__(self) -> None:
        set_names(self)

    @property
    def same_error(self) -> float:
        """The probability that two wrong answers to an item agree."""
        theta = 0.0 if self.options is None else self.concentration / (self.options - 1)
        return (1.0 + theta) / (1.0 + self.concentration)

    @property
    def chance(self) -> float:
        """The accuracy of guesses: one in as many options as there are, or seem to be.

        That is as many as the answers that one item got, and enough for wrong answers to agree as seldom as they do.
        """
        return 1.0 / (self.options or max(1.0 + 1.0 / self.same_error, self.most_answers))

    @cached_property
    def accuracy(self) -> Floats:
        """The probability that an annotator is right, over items of all degrees of ease, (M,)."""
        ease = Ease(self.spread, np.zeros(1, np.int64))
        right: Floats = (ease.shares / (1.0 + np.exp(-self.ability[:, None] - self.spread * ease.nodes))).sum(axis=1)
        return right

    @property
    def information(self) -> Floats:
        """Bits that one label tells of the truth, among ``1 / chance`` equally likely options, (M,)."""
        # log2 O + a log2 a + (1 - a) log2((1 - a) / (O - 1))
        a, options = self.accuracy, 1.0 / self.chance
        bits: Floats = np.log2(options) + a * np.log2(a) + (1.0 - a) * np.log2((1.0 - a) / (options - 1.0))
        return np.maximum(bits, 0.0)

    def raw_posterior(self, annotations: Annotations) -> OpenPosterior:
        """Return the posterior of the model itself, with labels as independent evidence.

        Annotators are matched by name; an unknown one has the crowd's ability.  The answers may be new.
        """
        code = self.annotators.codes_of(annotations.annotator_ids.to_arrow())
        ability = np.append(self.ability, self.crowd)[code]
        one_pass = OpenPass(annotations, self.spread, self.options)
        q, none, _ = one_pass(ability, self.concentration)
        return OpenPosterior(one_pass.candidates, q, none)

    def posterior(self, annotations: Annotations) -> OpenPosterior:
        """Return the posterior of the items, with labels counted as fewer where wrong answers agree."""
        n = np.maximum(annotations.labels_per_item, 1)
        correlation = _CORRELATION * self.same_error
        weight = np.maximum(1.0 / (1.0 + (n - 1.0) * correlation), _LEAST_WEIGHT)
        return self.raw_posterior(annotations).tempered(weight)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpenModel):
            return NotImplemented
        same = (*_NUMBERS, "classes", "annotators")
        return np.array_equal(self.ability, other.ability) and all(
            getattr(self, name) == getattr(other, name) for name in same
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<OpenModel: {len(self.annotators)} annotators, {len(self.classes)} different answers>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file; names are stored in it as JSON, never as pickles."""
        content: dict[str, Any] = {"classes": self.classes.to_json(), "annotators": self.annotators.to_json()}
        content |= {name: getattr(self, name) for name in _NUMBERS}
        save_arrays(path, {**_FORMAT, **content}, ability=self.ability)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OpenModel:
        """Read what :meth:`save` wrote."""
        content, arrays = load_arrays(path, _FORMAT, ("ability",), "a model written by OpenModel.save")
        names: Any = {of: Ids.from_json(content[of]) for of in ("classes", "annotators")}
        return cls(arrays["ability"], **{name: content[name] for name in _NUMBERS}, **names)
