r"""Answers that name several options: every option of every item is a question of its own, with annotators in common.

Annotators do not simply see or miss an option: some options are plain to everybody, others divide the crowd.  So option
o of item n has a *level* x, on a grid, and annotator m ticks it with

    log-odds  =  λ_m x + a_m + e_mo,      λ_m ~ N(1, τ_λ²),  a_m ~ N(0, τ_a²),  e_mo ~ N(0, τ_e²).

λ_m says how well the annotator tells options apart (0: not at all), a_m how readily they tick: both are shared by all
options, so skill on one says something about the others.  e_mo is what is left for a single option.  Each option has
its own shares w_o(x) of the levels, which are drawn towards those of all options.

*What is true.*  An option is true where its level is above the cut of its option: there an average annotator, each
weighted by λ², would tick it as likely as not.  The levels of true options differ with a standard deviation of σ: by so
much the whole crowd misjudges an option.  With P the probability that the level is above the cut, and s² the variance
of the level given the labels, the probability that the option is true is

    Φ( Φ⁻¹(P) · s / √(s² + σ²) ),

which changes no decision.

*Options depend on each other* where the data show it: the log-odds that an option is true change by
Σ_o' B_oo' (p_no' - mean of p_o'), as in a mean field.

*Options of one item only.*  If options do not recur (spans to tick in a sentence), nothing shows what a true one looks
like.  All options then have the same shares of levels, e_mo is 0, and the probability is the expected share of all
annotators who would tick it.

With known answers, the log-odds are calibrated: α + β log-odds.

====== ================== ==========
symbol name               shape
====== ================== ==========
λ      ``slope``          (M,)
a      ``shift``          (M,)
e      ``deviation``      (M, G)
x      ``levels``         (J,)
w      ``shares``         (G, J)
..     ``above``          (G, J): which part of a level is true
σ      ``spread``         scalar
B      ``pull``           (G, G)
====== ================== ==========

G is the number of options, or 1 if they do not recur.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.data.option_sets import option_sets
from consilience.exceptions import DataError
from consilience.files import load_arrays, save_arrays
from consilience.kernels._arrays import Floats
from consilience.kernels.multi import Ticks, level_pass, ticks_of
from consilience.models.dawid_skene import set_names

__all__ = ["HALF_STEP", "LEVELS", "MultiModel", "MultiPosterior", "crowd_cut", "levels_above"]

#: Half the distance between levels, and the levels.
#: origin: from a share of 0.4 % to one of 99.6 %; alternatives: 12 levels of 1, 24 of 0.5; sensitivity: log-loss of
#: held-out majorities of opendomain_relations_multilabel 0.045 to 0.047, F1 0.801 to 0.806.
HALF_STEP = 0.375
LEVELS = HALF_STEP * np.arange(-15.0, 16.0, 2.0)
#: Rounds of the mean field.
_ROUNDS = 3

_FORMAT = {"format": "consilience.MultiModel", "version": 1}
_ARRAYS = ("slope", "shift", "deviation", "shares", "above", "pull", "usual")


def crowd_cut(slope: Floats, shift: Floats, deviation: Floats, active: Floats) -> Floats:
    """Return the level at which an average annotator, weighted by λ², ticks as likely as not, (G,)."""
    weight = active * np.maximum(slope, 0.0)[:, None] ** 2
    weight = np.where(weight.sum(axis=0) > 0, weight, active)
    weight = weight / np.maximum(weight.sum(axis=0), 1e-300)
    low = np.full(deviation.shape[1], LEVELS[0] - HALF_STEP)
    high = np.full(deviation.shape[1], LEVELS[-1] + HALF_STEP)
    for _ in range(40):
        middle = 0.5 * (low + high)
        ticked = (weight / (1.0 + np.exp(-(slope[:, None] * middle + shift[:, None] + deviation)))).sum(axis=0)
        low, high = np.where(ticked > 0.5, low, middle), np.where(ticked > 0.5, middle, high)
    cut: Floats = 0.5 * (low + high)
    return cut


def levels_above(cut: Floats) -> Floats:
    """Return which part of each level is above the cut, (G, J)."""
    part: Floats = np.clip((LEVELS + HALF_STEP - cut[:, None]) / (2.0 * HALF_STEP), 0.0, 1.0)
    return part


@dataclass(frozen=True, eq=False)
class MultiPosterior:
    """Candidates with their probabilities."""

    ticks: Ticks
    levels: Floats  #: probability of each level, (C, J)
    probability: Floats  #: that the option is true of the item, (C,)


@dataclass(frozen=True, eq=False)
class MultiModel:
    """Parameters of the model, with the names of options and annotators."""

    slope: Floats  #: λ, how well an annotator tells options apart, (M,)
    shift: Floats  #: a, how readily an annotator ticks, (M,)
    deviation: Floats  #: e, that of single options, (M, G)
    shares: Floats  #: w, how frequent each level is, (G, J)
    above: Floats  #: which part of a level is true, (G, J)
    pull: Floats  #: B, what other options add to the log-odds, (G, G)
    usual: Floats  #: mean probability of each option, (G,)
    spread: float  #: σ, by how much the whole crowd misjudges an option
    calibration: tuple[float, float]  #: α and β, from known answers
    shared: bool  #: whether options recur from item to item
    options: Ids
    annotators: Ids
    classes: Ids  #: the sets of options that were given or chosen, as text

    def __post_init__(self) -> None:
        set_names(self)

    def ticks(self, annotations: Annotations, more: Any = None) -> Ticks:
        """Return the candidates of the items and who ticked them."""
        known = self.options if self.shared else None
        sets = option_sets(annotations.class_ids, known)
        a = annotations
        return ticks_of(a.indptr, a.annotator, a.label, sets[1:], len(sets.options), shared=self.shared, more=more)

    def log_odds(self, annotators: Ids | None = None) -> Floats:
        """Return the log-odds that annotators tick candidates of each level, (M, G, J); unknown ones are average."""
        code = np.arange(self.slope.size) if annotators is None else self.annotators.codes_of(annotators.to_arrow())
        slope, shift = np.append(self.slope, 1.0)[code], np.append(self.shift, 0.0)[code]
        deviation = np.concatenate([self.deviation, np.zeros((1, self.deviation.shape[1]))])[code]
        odds: Floats = slope[:, None, None] * LEVELS + shift[:, None, None] + deviation[:, :, None]
        return odds

    def posterior(self, annotations: Annotations) -> MultiPosterior:
        """Return the probability of every option of these items; annotators are matched by name."""
        ticks = self.ticks(annotations)
        return self.weigh(ticks, self.log_odds(annotations.annotator_ids))

    def weigh(self, ticks: Ticks, log_odds: Floats) -> MultiPosterior:
        """Return the probability of every candidate."""
        log_shares = np.log(self.shares)
        levels, _ = level_pass(ticks, log_odds, log_shares, self.above)
        if self.pull.any():
            for _ in range(_ROUNDS):
                p = (levels * self.above[ticks.kind]).sum(axis=1).reshape(-1, self.usual.size)
                added = (p - self.usual) @ self.pull.T
                levels, _ = level_pass(ticks, log_odds, log_shares, self.above, np.ascontiguousarray(added.ravel()))
        return MultiPosterior(ticks, levels, self.probability(ticks, levels))

    def probability(self, ticks: Ticks, levels: Floats) -> Floats:
        """Return the probability that each candidate is true, from that of its levels."""
        p: Floats = (levels * self.above[ticks.kind]).sum(axis=1)
        if self.shared:
            p = _with_doubt(p, levels, self.spread)
        alpha, beta = self.calibration
        if (alpha, beta) != (0.0, 1.0):
            p = np.clip(p, 1e-9, 1.0 - 1e-9)
            p = 1.0 / (1.0 + np.exp(-alpha - beta * np.log(p / (1.0 - p))))
        return p

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MultiModel):
            return NotImplemented
        same = ("spread", "calibration", "shared", "options", "annotators", "classes")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS) and all(
            getattr(self, name) == getattr(other, name) for name in same
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<MultiModel: {len(self.annotators)} annotators, {len(self.options)} options>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file; names are stored in it as JSON, never as pickles."""
        names = {of: getattr(self, of).to_json() for of in ("options", "annotators", "classes")}
        content = {**names, "spread": self.spread, "calibration": list(self.calibration), "shared": self.shared}
        save_arrays(path, {**_FORMAT, **content}, **{name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MultiModel:
        """Read what :meth:`save` wrote."""
        content, arrays = load_arrays(path, _FORMAT, _ARRAYS, "a model written by MultiModel.save")
        names: Any = {of: Ids.from_json(content[of]) for of in ("options", "annotators", "classes")}
        alpha, beta = content["calibration"]
        shared = bool(content["shared"])
        if shared and arrays["shares"].shape[0] != len(names["options"]):
            raise DataError(f"{path} is damaged: it has {len(names['options'])} options, but other shares")
        return cls(**arrays, spread=content["spread"], calibration=(alpha, beta), shared=shared, **names)


def _with_doubt(p: Floats, levels: Floats, spread: float) -> Floats:
    """Return Φ(Φ⁻¹(p) s / √(s² + σ²)), where s² is the variance of the level given the labels."""
    from scipy.special import ndtr, ndtri

    mean = levels @ LEVELS
    variance = np.maximum(levels @ LEVELS**2 - mean**2, 0.0) + HALF_STEP**2 / 3.0
    z = ndtri(np.clip(p, 1e-9, 1.0 - 1e-9))
    doubted: Floats = ndtr(z * np.sqrt(variance / (variance + spread**2)))
    return doubted
