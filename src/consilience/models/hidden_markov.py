"""Annotators of tokens in sequences: a hidden Markov chain of truths with Dawid-Skene annotators.

    Pr(y_1 = h) = start[h],   Pr(y_n = i | y_(n-1) = h) = transitions[i, h]            thesis (4.1)
    Pr(annotator m says i of token n | y_n = h) = emissions[m, c, i, h]                 thesis (4.2), with a context c

The plain model has one context.  Errors in text come in runs, though: an annotator who misses the first word of a name
misses the others too.  With ``context`` the label depends on the truth and on the *same* annotator's label of the token
before: c is that label, or K if there is none (Simpson & Gurevych 2019).  Each class may have several hidden states, so
that annotators may err together: state h belongs to class ``h // states``.  A ``backward`` chain reads its sequences
from the end: its contexts are the labels of the token after.

=================== ============================= ==================================
symbol              name                          shape
=================== ============================= ==================================
Pr(y_1)             ``start``                     (H,), H = K · states
T                   ``transitions``               (H, H), columns sum to one
Γ_m                 ``emissions[m]``              (M, C, K, H), sums to one over axis 2
=================== ============================= ==================================

P. A. Traganitis, thesis (2019), chapter 4 and Appendix E (with its errata).  A. Nguyen et al., "Aggregating and
predicting sequence labels from crowd annotations" (2017).  E. Simpson and I. Gurevych, "A Bayesian approach for
sequence tagging with crowds" (2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from consilience.data.ids import Ids
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Codes, Floats, Ints, code_dtype
from consilience.kernels.chains import ChainStatistics, ChainSweep, Tokens
from consilience.kernels.lagged import has_predecessor
from consilience.kernels.silence import add_silence, pool_silence
from consilience.kernels.votes import said_counts
from consilience.models.dawid_skene import set_distribution, set_names

__all__ = ["HiddenMarkov", "SilentChains", "chain_sweep", "labels_in_context", "stationary_of"]


def labels_in_context(sequences: SequenceAnnotations) -> Codes:
    """Return the code of every label with its annotator's label of the token before: ``c · K + label``, (labels,).

    c is K if the annotator did not label that token, or there is none.
    """
    a = sequences.tokens
    K = a.n_classes
    token, continues = a.item_of_label(), has_predecessor(sequences.indptr)
    # Labels are in the order of tokens: a stable sort by annotator puts each after the same annotator's previous one.
    order = np.argsort(a.annotator, kind="stable")
    before, now = order[:-1], order[1:]
    follows = (a.annotator[before] == a.annotator[now]) & (token[now] - token[before] == 1) & continues[token[now]]
    context = np.full(a.n_labels, K, np.int64)
    context[now[follows]] = a.label[before[follows]]
    return (context * K + a.label).astype(code_dtype(K * (K + 1)))


def chain_sweep(sequences: SequenceAnnotations, *, context: bool, states: int) -> ChainSweep | SilentChains:
    """Return the E-step of these sequences."""
    a = sequences.tokens
    if context and sequences.silence is not None:
        raise ParameterError("where silence is a label, labels cannot depend on the one before: use a chain without it")
    symbol, contexts = (labels_in_context(sequences), a.n_classes + 1) if context else (a.label, 1)
    owner = np.repeat(np.arange(a.n_classes, dtype=np.int32), states)
    sweep = ChainSweep(
        sequences.indptr,
        a.indptr,
        a.annotator,
        symbol,
        a.gold,
        a.n_annotators,
        contexts * a.n_classes,
        a.n_classes * states,
        owner,
    )
    if sequences.silence is None:
        return sweep
    said = said_counts(a.annotator, a.label, a.n_annotators, a.n_classes)
    return SilentChains(sweep, sequences.silence, said, sweep)


@dataclass(frozen=True, eq=False)
class SilentChains:
    """Forward-backward where silence is a label: all silence together is a factor of start and transitions.

    See :mod:`consilience.kernels.silence`.
    """

    plain: ChainSweep  #: over the labels given
    silence: int
    said: Ints  #: labels i of annotator m, (M, K)
    run: Callable[[Floats, Floats, Floats], ChainStatistics]  #: ``plain``, or the same pass on a cluster

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, K and H."""
        return self.plain.shape

    @property
    def tokens(self) -> Tokens:
        """The labels given."""
        return self.plain.tokens

    def _pooled(self, start: Floats, transitions: Floats, emissions: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Return what the plain sweep runs with, and what is missing from its log-likelihood."""
        pooled, ratios, log_pooled, log_ratios = pool_silence(emissions.reshape(self.shape), self.silence)
        missing = log_pooled * (self.tokens.indptr.size - 1) + float((self.said * log_ratios).sum())
        return start * pooled, transitions * pooled[:, None], ratios, missing

    def __call__(self, start: Floats, transitions: Floats, emissions: Floats) -> ChainStatistics:
        """Run the E-step, as :class:`~consilience.kernels.chains.ChainSweep`; the counts include silence."""
        *tables, missing = self._pooled(start, transitions, emissions)
        found = self.run(*tables)
        counts = add_silence(found.counts, found.class_counts, self.silence)
        return found._replace(counts=counts, log_likelihood=found.log_likelihood + missing)

    def posterior(self, start: Floats, transitions: Floats, emissions: Floats) -> tuple[Floats, float]:
        """Return the posterior of every token (N, H) and the log-likelihood."""
        *tables, missing = self._pooled(start, transitions, emissions)
        posterior, log_likelihood = self.plain.posterior(*tables)
        return posterior, log_likelihood + missing

    def decode(self, start: Floats, transitions: Floats, emissions: Floats) -> Codes:
        """Return the most probable path through each sequence, (N,)."""
        return self.plain.decode(*self._pooled(start, transitions, emissions)[:3])


def stationary_of(transitions: Floats) -> Floats:
    """Return π with T π = π and Σ π = 1, (H,); a reducible chain has many, of which this is the one of least norm."""
    H = len(transitions)
    system = np.vstack([transitions - np.eye(H), np.ones(H)])
    found = np.maximum(np.linalg.lstsq(system, np.append(np.zeros(H), 1.0), rcond=None)[0], 0.0)
    return np.asarray(found / found.sum())


@dataclass(frozen=True, eq=False, repr=False)
class HiddenMarkov:
    """Parameters of the chain and of its annotators, with the names of classes and annotators."""

    start: Floats
    transitions: Floats
    emissions: Floats
    classes: Ids
    annotators: Ids
    backward: bool = False

    def __post_init__(self) -> None:
        set_names(self)
        K, M, H = len(self.classes), len(self.annotators), self.start.size
        shapes = {"transitions": (H, H), "emissions": (M, K + 1 if self.context else 1, K, H)}
        if H % max(K, 1) or any(getattr(self, name).shape != shape for name, shape in shapes.items()):
            raise ParameterError(
                f"{M} annotators, {K} classes and a start of {H} states need transitions of shape {(H, H)} and "
                f"emissions of shape {(M, 1, K, H)} or {(M, K + 1, K, H)}, "
                f"not {self.transitions.shape} and {self.emissions.shape}"
            )
        for name, axis in (("start", 0), ("transitions", 0), ("emissions", 2)):
            set_distribution(self, name, axis, f"axis {axis}")

    @property
    def context(self) -> bool:
        """Whether a label depends on its annotator's previous label."""
        return bool(self.emissions.ndim == 4 and self.emissions.shape[1] > 1)

    @property
    def states(self) -> int:
        """Hidden states of each class."""
        return self.start.size // max(len(self.classes), 1)

    # ---- labels -----------------------------------------------------------------------------------------

    def posterior(self, sequences: SequenceAnnotations) -> Floats:
        """Return ``Pr(truth of token n = k | all labels of its sequence)``, (N, K), by forward-backward (App. E)."""
        return self.posterior_and_likelihood(sequences)[0]

    def log_likelihood(self, sequences: SequenceAnnotations) -> float:
        """Return the log-probability of all labels (and gold), summed over sequences."""
        return self.posterior_and_likelihood(sequences)[1]

    def posterior_and_likelihood(self, sequences: SequenceAnnotations) -> tuple[Floats, float]:
        """Return both :meth:`posterior` and :meth:`log_likelihood` from one pass."""
        coded, emissions = self._coded(sequences)
        sweep = chain_sweep(coded, context=self.context, states=self.states)
        by_state, log_likelihood = sweep.posterior(self.start, self.transitions, emissions)
        posterior = by_state.reshape(len(by_state), -1, self.states).sum(axis=2) if self.states > 1 else by_state
        if self.states > 1 and (gold := coded.tokens.gold) is not None:  # sums over states are rounded
            posterior[gold >= 0] = np.eye(len(self.classes))[gold[gold >= 0]]
        return (posterior[sequences.turned()] if self.backward else posterior), log_likelihood

    def decode(self, sequences: SequenceAnnotations, forbidden: tuple[Bools, Bools] | None = None) -> Codes:
        """Return the class of every token on the most probable path of its sequence (Viterbi), (N,).

        Parameters
        ----------
        sequences
            The labels.
        forbidden
            Classes that no sequence may start with (K,), and ``[i, k]`` where i must not follow k (K, K).
        """
        coded, emissions = self._coded(sequences)
        sweep = chain_sweep(coded, context=self.context, states=self.states)
        start, transitions = self.start, self.transitions
        if forbidden is not None:
            no_start, no_pair = (np.repeat(x, self.states, axis=0) for x in forbidden)
            start = np.where(no_start, 0.0, start)
            transitions = np.where(np.repeat(no_pair, self.states, axis=1), 0.0, transitions)
        path = sweep.decode(start, transitions, emissions) // self.states
        return path[sequences.turned()] if self.backward else path

    def _coded(self, sequences: SequenceAnnotations) -> tuple[SequenceAnnotations, Floats]:
        """Return the labels in this model's codes, and emissions; an unknown annotator has the average ones."""
        a, emissions = sequences.tokens, self.emissions
        if a.annotator_ids != self.annotators or a.class_ids != self.classes:
            sequences = sequences.recode(self.annotators, self.classes)
            a = sequences.tokens
        if self.backward:
            sequences = sequences.backwards()
        strangers = a.n_annotators - len(self.annotators)
        if strangers:
            average = emissions.mean(axis=0, keepdims=True)
            emissions = np.concatenate([emissions, np.repeat(average, strangers, axis=0)])
        return sequences, emissions.reshape(a.n_annotators, -1, self.start.size)

    # ---- classes ----------------------------------------------------------------------------------------

    @cached_property
    def stationary(self) -> Floats:
        """Stationary distribution of the hidden states, (H,)."""
        return stationary_of(self.transitions)

    @property
    def class_transitions(self) -> Floats:
        """``[i, k]`` is the probability that class i follows class k, (K, K); ``stationary`` weights states."""
        K, Z = len(self.classes), self.states
        if Z == 1:
            return self.transitions
        weight = self.stationary.reshape(K, Z) + 1e-12
        weight /= weight.sum(axis=1, keepdims=True)
        return np.asarray(np.einsum("iykz,kz->ik", self.transitions.reshape(K, Z, K, Z), weight))

    def __repr__(self) -> str:
        more = ", labels in context" if self.context else ""
        more += f", {self.states} states a class" if self.states > 1 else ""
        more += ", read backwards" if self.backward else ""
        return f"<HiddenMarkov: {len(self.annotators)} annotators, {len(self.classes)} classes{more}>"
