"""Several hidden Markov chains of the same crowd, whose posteriors are averaged.

    Pr(y_n = k)  =  mean over chains of their posterior of token n

With ``votes``, the shares of the votes count half.  One chain alone decides by its most probable path (Viterbi).  Else
the valid path with the largest Σ log Pr(y_n) does: if nothing is forbidden, each token's most probable class.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consilience.data.ids import Ids
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ParameterError
from consilience.files import load_arrays, save_arrays
from consilience.kernels._arrays import Bools, Codes, Floats
from consilience.kernels.chains import ChainSweep
from consilience.models.hidden_markov import HiddenMarkov

__all__ = ["ChainMixture", "Never"]

_FORMAT = {"format": "consilience.ChainMixture", "version": 1}
#: Posteriors that differ by less are a tie.
_TIE = 1e-9
_ARRAYS = ("start", "transitions", "emissions")


class Never(NamedTuple):
    """What is forbidden: classes at the start of a sequence (K,), and ``[i, k]`` where i must not follow k (K, K)."""

    start: Bools
    pair: Bools


@dataclass(frozen=True, eq=False)
class ChainMixture:
    """The model of a crowd of token annotators: one chain, or several that are averaged."""

    chains: tuple[HiddenMarkov, ...]
    votes: bool = False  #: whether the chains are averaged with the votes

    def __post_init__(self) -> None:
        first = self.chains[0] if self.chains else None
        if first is None or any(
            chain.classes != first.classes or chain.annotators != first.annotators for chain in self.chains
        ):
            raise ParameterError("a mixture needs one chain or more, all of the same classes and annotators")

    @property
    def classes(self) -> Ids:
        """Names of the classes."""
        return self.chains[0].classes

    @property
    def annotators(self) -> Ids:
        """Names of the annotators."""
        return self.chains[0].annotators

    @property
    def start(self) -> Floats:
        """Probability of each class at the start of a sequence, by the first chain, (K,)."""
        first = self.chains[0]
        return np.asarray(first.start.reshape(-1, first.states).sum(axis=1))

    @property
    def transitions(self) -> Floats:
        """``[i, k]`` is the probability that class i follows class k, by the first chain, (K, K)."""
        return self.chains[0].class_transitions

    def posterior(self, sequences: SequenceAnnotations) -> Floats:
        """Return ``Pr(truth of token n = k | all labels of its sequence)``, (N, K)."""
        mean = self.chains[0].posterior(sequences)
        for chain in self.chains[1:]:
            mean = mean + chain.posterior(sequences)
        mean /= len(self.chains)
        if not self.votes:
            return mean
        return (mean + sequences.recode(self.annotators, self.classes).vote_shares()) / 2

    def log_likelihood(self, sequences: SequenceAnnotations) -> float:
        """Return the log-probability of all labels (and gold): the mean over chains."""
        return float(np.mean([chain.log_likelihood(sequences) for chain in self.chains]))

    def decode(self, sequences: SequenceAnnotations, posterior: Floats, never: Never | None = None) -> Codes:
        """Return the class of every token, (N,); ``posterior`` is that of the same sequences."""
        if len(self.chains) == 1 and not self.votes:
            return self.chains[0].decode(sequences, never)
        if self.votes:  # they decide between classes of the same probability
            posterior = posterior + _TIE * sequences.recode(self.annotators, self.classes).vote_shares()
        if never is None:
            return np.asarray(posterior.argmax(axis=1), np.int32)
        N, K = posterior.shape
        # every token has one artificial label, whose probability under class k is its posterior
        token = np.arange(N + 1)
        gold = sequences.tokens.gold
        path = ChainSweep(sequences.indptr, token, np.zeros(N, np.uint8), token[:-1].astype(np.uint32), gold, 1, N, K)
        return path.decode((~never.start).astype(float), (~never.pair).astype(float), posterior[None])

    # ---- files ------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file; names are stored in it as JSON, never as pickles."""
        content = {
            **_FORMAT,
            "classes": self.classes.to_json(),
            "annotators": self.annotators.to_json(),
            "backward": [chain.backward for chain in self.chains],
            "votes": self.votes,
        }
        arrays = {f"{name}_{c}": getattr(chain, name) for c, chain in enumerate(self.chains) for name in _ARRAYS}
        save_arrays(path, content, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ChainMixture:
        """Read what :meth:`save` wrote."""
        what = "a model written by ChainMixture.save"
        content, _ = load_arrays(path, _FORMAT, (), what)
        backward = list(content["backward"])
        wanted = tuple(f"{name}_{c}" for c in range(len(backward)) for name in _ARRAYS)
        _, arrays = load_arrays(path, _FORMAT, wanted, what)
        classes, annotators = Ids.from_json(content["classes"]), Ids.from_json(content["annotators"])
        chains = []
        for c, turned in enumerate(backward):
            start, transitions, emissions = (arrays[f"{name}_{c}"] for name in _ARRAYS)
            chains.append(HiddenMarkov(start, transitions, emissions, classes, annotators, bool(turned)))
        return cls(tuple(chains), bool(content.get("votes", False)))
