"""Annotators of tokens whose truths follow each other: a hidden Markov chain with a Dawid-Skene crowd on top.

    Pr(y_1 = h) = start[h],   Pr(y_n = i | y_(n-1) = h) = transitions[i, h]            thesis (4.1)
    Pr(annotator m says i of token n | y_n = h) = emissions[m, c, i, h]                 thesis (4.2), with a context c

In the plain model there is one context.  Annotators of text err in runs, though: who misses the first word of a name
misses the others too.  With ``context`` the label depends on the truth and on what the *same* annotator said of the
token before: c is that label, or K where there is none (Simpson & Gurevych 2019).  Each class may have several hidden
states, so that annotators may err together: state h belongs to class ``h // states``.  A ``backward`` chain reads its
sequences from the end: its contexts are what annotators said of the token after.

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

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from consilience.data.ids import Ids
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Codes, Floats, code_dtype
from consilience.kernels.chains import ChainSweep

__all__ = ["HiddenMarkov", "chain_sweep", "labels_in_context"]


def labels_in_context(sequences: SequenceAnnotations) -> Codes:
    """Code every label together with what its annotator said of the token before: ``c · K + label``, (labels,).

    c is K where the annotator did not label that token, or there is none.
    """
    a = sequences.tokens
    K = a.n_classes
    token = a.item_of_label()
    first = np.zeros(a.n_items, np.bool_)
    starts = sequences.indptr[:-1][sequences.lengths > 0]
    first[starts] = True
    # Labels lie in the order of tokens: a stable sort by annotator puts each label behind the same annotator's last.
    order = np.argsort(a.annotator, kind="stable")
    before, now = order[:-1], order[1:]
    follows = (a.annotator[before] == a.annotator[now]) & (token[now] - token[before] == 1) & ~first[token[now]]
    context = np.full(a.n_labels, K, np.int64)
    context[now[follows]] = a.label[before[follows]]
    return (context * K + a.label).astype(code_dtype(K * (K + 1)))


def chain_sweep(sequences: SequenceAnnotations, *, context: bool, states: int) -> ChainSweep:
    """Make the E-step of these sequences."""
    a = sequences.tokens
    symbol, contexts = (labels_in_context(sequences), a.n_classes + 1) if context else (a.label, 1)
    owner = np.repeat(np.arange(a.n_classes, dtype=np.int32), states)
    return ChainSweep(
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
        for name in ("classes", "annotators"):
            if not isinstance(ids := getattr(self, name), Ids):
                object.__setattr__(self, name, Ids(list(ids)))
        K, M, H = len(self.classes), len(self.annotators), self.start.size
        shapes = {"transitions": (H, H), "emissions": (M, K + 1 if self.context else 1, K, H)}
        axis = {"start": 0, "transitions": 0, "emissions": 2}
        if H % max(K, 1) or any(getattr(self, name).shape != shape for name, shape in shapes.items()):
            raise ParameterError(
                f"{M} annotators, {K} classes and a start of {H} states need transitions of shape {(H, H)} and "
                f"emissions of shape {(M, 1, K, H)} or {(M, K + 1, K, H)}, "
                f"not {self.transitions.shape} and {self.emissions.shape}"
            )
        for name in axis:
            values = np.ascontiguousarray(getattr(self, name), np.float64)
            if not (np.all(values >= 0) and np.allclose(values.sum(axis=axis[name]), 1.0, atol=1e-6)):
                raise ParameterError(f"{name} must be nonnegative and sum to one over axis {axis[name]}")
            values = values.view()
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def context(self) -> bool:
        """Whether a label depends on what its annotator said before."""
        return bool(self.emissions.ndim == 4 and self.emissions.shape[1] > 1)

    @property
    def states(self) -> int:
        """Hidden states of each class."""
        return self.start.size // max(len(self.classes), 1)

    # ---- labels -----------------------------------------------------------------------------------------

    def posterior(self, sequences: SequenceAnnotations) -> Floats:
        """Give ``Pr(truth of token n = k | all labels of its sequence)``, (N, K), by forward-backward (App. E)."""
        return self.posterior_and_likelihood(sequences)[0]

    def log_likelihood(self, sequences: SequenceAnnotations) -> float:
        """Give the log-probability of all labels (and gold), summed over sequences."""
        return self.posterior_and_likelihood(sequences)[1]

    def posterior_and_likelihood(self, sequences: SequenceAnnotations) -> tuple[Floats, float]:
        """Give both :meth:`posterior` and :meth:`log_likelihood` from one pass."""
        coded, emissions = self._coded(sequences)
        sweep = chain_sweep(coded, context=self.context, states=self.states)
        by_state, log_likelihood = sweep.posterior(self.start, self.transitions, emissions)
        posterior = by_state.reshape(len(by_state), -1, self.states).sum(axis=2) if self.states > 1 else by_state
        return (posterior[sequences.turned()] if self.backward else posterior), log_likelihood

    def decode(self, sequences: SequenceAnnotations, forbidden: tuple[Bools, Bools] | None = None) -> Codes:
        """Give the class of every token on the most probable path of its sequence (Viterbi), (N,).

        Parameters
        ----------
        sequences
            The labels.
        forbidden
            Classes that no sequence starts with (K,), and ``[i, k]`` of classes that i must not follow k (K, K).
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
        """Give the labels in this model's codes; an annotator that it does not know is the average one."""
        a, emissions = sequences.tokens, self.emissions
        if a.annotator_ids != self.annotators or a.class_ids != self.classes:
            a = a.recode(self.annotators, self.classes)
            sequences = replace(sequences, tokens=a)
        if self.backward:
            sequences = sequences.backwards()
        strangers = a.n_annotators - len(self.annotators)
        if strangers:
            average = emissions.mean(axis=0, keepdims=True)
            emissions = np.concatenate([emissions, np.repeat(average, strangers, axis=0)])
        return sequences, emissions.reshape(a.n_annotators, -1, self.start.size)

    # ---- what it says of classes ------------------------------------------------------------------------

    @cached_property
    def stationary(self) -> Floats:
        """Share of each hidden state in a long sequence, (H,): the fixed point of the transitions."""
        H = self.start.size
        # π = T π and 1ᵀπ = 1; a chain that falls apart has many, of which least squares gives one
        system = np.vstack([self.transitions - np.eye(H), np.ones(H)])
        found = np.linalg.lstsq(system, np.append(np.zeros(H), 1.0), rcond=None)[0]
        share = np.maximum(found, 0.0)
        return np.asarray(share / share.sum())

    @property
    def class_transitions(self) -> Floats:
        """``[i, k]`` is the probability that class i follows class k, (K, K); states weigh as in a long sequence."""
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
