r"""Sketched subspace clustering: Theorem 2.1 and Proposition 2.3 of Traganitis (2019).

Both follow from ε, the distortion of the row space of the samples by the sketch: all squared singular values of
:math:`V^\top R` lie in [1 - ε, 1 + ε], with V (N, ρ) the right singular vectors.  For Gaussian sketches with n columns

.. math:: \varepsilon = (1 + \sqrt{\rho / n} + t)^2 - 1, \qquad t = \sqrt{2 \log(2 / \delta) / n}

with probability 1 - δ (Davidson & Szarek 2001); other sketches behave alike.  If the sketch is at hand, ε is computed.

* **Theorem 2.1** as printed bounds the error of a unit sample by more than 1 + λ, and it never exceeds 1: codes of zero
  have the error 1.  Its proof shows more.  The a that reproduces the first r directions has the objective
  :math:`\frac{\lambda}{2} T_2^2 + \frac{1}{2} \|a\|^2`, which the optimum cannot exceed, so

  .. math:: \|x - B \hat a\|^2 \le T_2^2 + \frac{1}{\lambda (1 - \varepsilon)}, \qquad
            T_2 \le \sigma_{r+1} + \sqrt{\tfrac{1 + \varepsilon}{1 - \varepsilon}}\, \|\bar X_r\|_F .

  With r = ρ, T_2 is 0.
* **Proposition 2.3**: distances of codes are those of the batch codes times 1/√(1 + ε) to 1/√(1 - ε), for LSR
  with λ → ∞.
"""

from __future__ import annotations

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.guarantees.bounds import Bound, Condition
from consilience.kernels._arrays import Floats

__all__ = ["code_distance_bound", "representation_bound", "sketch_distortion"]

_THESIS = "of Traganitis (2019)"


def sketch_distortion(rank: int, n_sketch: int, delta: float = 0.05) -> float:
    """Return ε of a Gaussian sketch with this many columns for samples of this rank, with probability 1 - δ."""
    if not (rank >= 1 and n_sketch >= 1 and 0 < delta < 1):
        raise ParameterError(f"rank, n_sketch ≥ 1 and 0 < delta < 1 are needed; got {rank!r}, {n_sketch!r}, {delta!r}")
    t = np.sqrt(2 * np.log(2 / delta) / n_sketch)
    return float((1 + np.sqrt(rank / n_sketch) + t) ** 2 - 1)


def code_distance_bound(epsilon: float) -> tuple[float, float]:
    """Return Proposition 2.3: the factors between which distances of codes lie, relative to batch codes."""
    return 1 / np.sqrt(1 + epsilon), 1 / np.sqrt(1 - epsilon) if epsilon < 1 else np.inf


def representation_bound(
    singular_values: Floats, lam: float, epsilon: float, rank: int | None = None, delta: float = 0.05
) -> Bound:
    """Return Theorem 2.1, sharpened: the error of the representation of a unit sample by Sketch-LSR.

    Parameters
    ----------
    singular_values
        Of all samples, descending.
    lam
        λ of (2.14).
    epsilon
        Distortion of the first ``rank`` directions.
    rank
        r; None: the rank of the samples.
    delta
        Probability with which ε does not hold.
    """
    singular = np.asarray(singular_values, np.float64)
    if singular.ndim != 1 or not singular.size or not lam > 0:
        raise DataError("singular_values must be a vector, and lam a number > 0")
    r = int((singular > singular[0] * 1e-10).sum()) if rank is None else int(rank)
    rest = singular[r:]
    apart = 0.0
    if epsilon < 1 and rest.size and rest[0] > singular[0] * 1e-10:
        apart = min(1.0, float(rest[0])) + np.sqrt((1 + epsilon) / (1 - epsilon)) * float(np.linalg.norm(rest))
    value = np.sqrt(apart**2 + 1 / (lam * (1 - epsilon))) if epsilon < 1 else np.inf
    conditions = (Condition("distortion by the sketch", epsilon, np.nextafter(1.0, 0.0)),)
    return Bound("the error of a unit sample", float(value), 1.0, 1 - 2 * delta, f"Theorem 2.1 {_THESIS}", conditions)
