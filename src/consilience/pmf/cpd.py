r"""A mixture of products: a canonical polyadic decomposition (CPD) of the joint distribution.

.. math:: \Pr(z_1, …, z_N) = \sum_f \lambda_f \prod_n A_n(z_n, f)

(Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", eq. (2)).  A missing entry is summed out: as the
columns of A_n sum to one, its factor is left out.  Every query costs a product of factors; the tensor of all
combinations is never formed.

====== =============== ===========================================
symbol name            shape
====== =============== ===========================================
λ      ``weights``     (F,), sums to one
A_n    ``factors[n]``  (I_n, F), columns sum to one
..     ``codes``       (S, N), index of the category, -1 missing
====== =============== ===========================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from consilience.exceptions import ParameterError
from consilience.files import load_arrays, save_arrays
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.cpd import FLOOR, TablePass

__all__ = ["CPD", "mixture", "split_factors"]

_FORMAT = {"format": "consilience.CPD", "version": 1}
#: Rows whose posteriors are in memory at a time.
_CHUNK = 1 << 16
#: Most cells of a marginal table.
_LARGEST = 1 << 26


@dataclass(frozen=True, eq=False)
class CPD:
    """Weights (F,) and one factor (I_n, F) per variable, whose columns sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.pmf.cpd import CPD
    >>> coin = np.array([[0.9, 0.2], [0.1, 0.8]])
    >>> model = CPD(np.array([0.5, 0.5]), (coin, coin))
    >>> model.marginal((0, 1)).round(3)
    array([[0.425, 0.125],
           [0.125, 0.325]])
    >>> model.conditional(1, np.array([[0, -1], [-1, -1]])).round(3)
    array([[0.773, 0.227],
           [0.55 , 0.45 ]])
    """

    weights: Floats
    factors: tuple[Floats, ...]

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        factors = tuple(np.array(factor, np.float64) for factor in self.factors)
        if weights.ndim != 1 or not factors or any(f.ndim != 2 or f.shape[1] != weights.size for f in factors):
            raise ParameterError(
                f"a CPD needs weights (F,) and a factor (categories, F) per variable, not {weights.shape} and "
                f"{[factor.shape for factor in factors]}"
            )
        for what, values in (("weights", weights[:, None]), *((f"factor {n}", f) for n, f in enumerate(factors))):
            if not (np.all(values >= 0) and np.allclose(values.sum(axis=0), 1.0, atol=1e-6)):
                raise ParameterError(f"{what} must be probabilities: nonnegative, each column with sum one")
        for values in (weights, *factors):
            values.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "factors", factors)

    @property
    def rank(self) -> int:
        """F, the number of components."""
        return int(self.weights.size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """I_n, the number of categories of each variable."""
        return tuple(len(factor) for factor in self.factors)

    @cached_property
    def stacked(self) -> Floats:
        """The factors stacked, (Σ I_n, F)."""
        return np.concatenate(self.factors)

    def __repr__(self) -> str:
        return f"<CPD: {len(self.factors)} variables, {self.rank} components>"

    # ---- queries -------------------------------------------------------------------------------------------

    def log_prob(self, codes: Codes) -> Floats:
        """Return the log-probability of the observed entries of every row, (S,); -inf if they are impossible."""
        codes = self._checked(codes)
        logs = np.empty(len(codes))
        if min(self.weights.min(), self.stacked.min()) < FLOOR:
            for first in range(0, len(codes), _CHUNK):
                logs[first : first + _CHUNK] = self._log_prob_with_zeros(codes[first : first + _CHUNK])
            return logs
        for rows, _, here in self._passed(codes):
            logs[rows] = here
        return logs

    def posterior(self, codes: Codes) -> Floats:
        """Return the probability of each component given the observed entries of each row, (S, F)."""
        return np.concatenate([q for _, q, _ in self._passed(self._checked(codes))])

    def conditional(self, target: int, codes: Codes) -> Floats:
        """Return Pr(target | the other entries) for every row, (S, I_target); the target's own entry is ignored.

        Probabilities of zero count as very small, so the result is a distribution also for impossible entries.
        """
        target, codes = self._without(target, codes)
        # Pr(z_t | z) = Σ_f q(f | z) A_t(z_t, f)
        return np.concatenate([q @ self.factors[target].T for _, q, _ in self._passed(codes)])

    def expectation(self, target: int, codes: Codes, values: Any) -> Floats:
        """Return E[value of target | the other entries], (S,): the prediction of least mean squared error."""
        target, codes = self._without(target, codes)
        values = np.asarray(values, np.float64)
        if values.shape != (self.sizes[target],):
            raise ParameterError(
                f"variable {target} has {self.sizes[target]} categories, but values have shape {values.shape}"
            )
        by_component = values @ self.factors[target]
        return np.concatenate([q @ by_component for _, q, _ in self._passed(codes)])

    def marginal(self, variables: int | Sequence[int]) -> Floats:
        """Return the joint distribution of a few variables, one axis each, in the given order."""
        chosen = [variables] if isinstance(variables, int | np.integer) else list(variables)
        chosen = [self._variable(n) for n in chosen]
        if len(set(chosen)) != len(chosen):
            raise ParameterError(f"each variable may be named only once; got {chosen}")
        size = float(np.prod([float(self.sizes[n]) for n in chosen]))
        if size > _LARGEST:
            raise ParameterError(f"the joint table of these variables has {size:.3g} cells; choose fewer of them")
        # Σ_f λ_f A_a(·, f) ∘ A_b(·, f) ∘ …
        left = self.weights[None, :]
        for n in chosen[:-1]:
            left = (left[:, None, :] * self.factors[n]).reshape(-1, self.rank)
        table = left @ self.factors[chosen[-1]].T if chosen else left.sum(axis=1)
        return table.reshape([self.sizes[n] for n in chosen])

    def sample(self, n: int, random_state: Any = None) -> Codes:
        """Draw n complete rows, (n, N)."""
        from consilience.pmf.table import signed_dtype
        from consilience.validation import generator

        rng = generator(random_state)
        # inverse transform sampling; component f uses the interval from f to f + 1
        component = np.minimum(np.searchsorted(_cumulated(self.weights), rng.random(n), "right"), self.rank - 1)
        codes = np.empty((n, len(self.factors)), signed_dtype(max(self.sizes)))
        for m, factor in enumerate(self.factors):
            ends = (_cumulated(factor).T + np.arange(self.rank)[:, None]).ravel()
            at = np.searchsorted(ends, component + rng.random(n), "right") - component * len(factor)
            codes[:, m] = np.clip(at, 0, len(factor) - 1)
        return codes

    # ---- components ----------------------------------------------------------------------------------------

    def permute(self, order: Any) -> CPD:
        """Return the same model with its components in another order."""
        return CPD(self.weights[order], tuple(factor[:, order] for factor in self.factors))

    def align(self, other: CPD) -> CPD:
        """Return the same model with its components in the order that best fits ``other`` (least squares)."""
        from scipy.optimize import linear_sum_assignment

        if other.sizes != self.sizes or other.rank != self.rank:
            raise ParameterError(f"{self!r} and {other!r} cannot be aligned: sizes or ranks differ")
        # ‖a - b‖² = ‖a‖² + ‖b‖² - 2 aᵀb, and the squares do not depend on the pairing
        order = linear_sum_assignment(other.stacked.T @ self.stacked, maximize=True)[1]
        return self.permute(order)

    # ---- files ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file without pickles."""
        save_arrays(path, _FORMAT, weights=self.weights, stacked=self.stacked, sizes=np.array(self.sizes, np.int64))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CPD:
        """Read a file written by :meth:`save`."""
        _, arrays = load_arrays(path, _FORMAT, ("weights", "stacked", "sizes"), "a model written by CPD.save")
        return cls(arrays["weights"], split_factors(arrays["stacked"], arrays["sizes"]))

    # ---- internals -----------------------------------------------------------------------------------------

    def _variable(self, variable: int) -> int:
        N = len(self.factors)
        if not -N <= variable < N:
            raise ParameterError(f"there are {N} variables, numbered from 0; {variable!r} is not among them")
        return int(variable) % N

    def _checked(self, codes: Any) -> Codes:
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != len(self.factors) or codes.dtype.kind not in "iu":
            raise ParameterError(
                f"expected integer codes (rows, {len(self.factors)}), got {codes.dtype} of shape {codes.shape}"
            )
        if codes.size and (codes.min() < -1 or np.any(codes.max(axis=0) >= np.array(self.sizes))):
            raise ParameterError("codes must be -1 (missing) or the index of a category of their variable")
        checked: Codes = codes
        return checked

    def _without(self, target: int, codes: Any) -> tuple[int, Codes]:
        target = self._variable(target)
        hidden = self._checked(codes)
        hidden = hidden.astype(np.int64) if hidden.dtype.kind == "u" else hidden.copy()
        hidden[:, target] = -1
        return target, hidden

    def _passed(self, codes: Codes) -> Iterator[tuple[slice, Floats, Floats]]:
        return TablePass(codes, self.sizes).posteriors(self.weights, self.stacked, _CHUNK)

    def _log_prob_with_zeros(self, codes: Codes) -> Floats:
        """Return log-probabilities for a model with zeros, which the compiled pass would take as very small."""
        with np.errstate(divide="ignore"):
            joint = np.tile(np.log(self.weights), (len(codes), 1))
            for n, factor in enumerate(self.factors):
                joint += np.concatenate([np.zeros((1, self.rank)), np.log(factor)])[codes[:, n].astype(np.int64) + 1]
            top = joint.max(axis=1, keepdims=True, initial=-np.inf)
            top[np.isneginf(top)] = 0.0
            logs: Floats = top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))
        return logs


def split_factors(stacked: Floats, sizes: Any) -> tuple[Floats, ...]:
    """Split stacked factors (Σ I_n, F) by variable."""
    return tuple(np.split(stacked, np.cumsum(np.asarray(sizes, np.int64))[:-1]))


def mixture(models: Sequence[CPD], weights: Any = None) -> CPD:
    """Return the mixture of several models of the same variables, with the components of all.

    Without ``weights`` all have the same weight.
    """
    shares = np.full(len(models), 1.0 / len(models)) if weights is None else np.asarray(weights, np.float64)
    return CPD(
        np.concatenate([share * model.weights for share, model in zip(shares, models, strict=True)]),
        tuple(np.concatenate(factors, axis=1) for factors in zip(*(model.factors for model in models), strict=True)),
    )


def _cumulated(probabilities: Floats) -> Floats:
    ends: Floats = np.cumsum(probabilities, axis=0)
    ends /= ends[-1]
    return ends
