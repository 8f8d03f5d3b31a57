"""Low-rank completion of a table of labels: the labels that every annotator would have given to every item.

A label is a row of the tensor T: one for the chosen class, zero for the others, minus 1/K.  T is known for the labels;
the rest follows from the low rank of its unfolding along items,

    X[n, m, k] = Σ_r A[n, r] B[m, k, r],

with the factors that minimise

    F = ½ Σ_labels ‖X[n, m, :] - T[n, m, :]‖² + ½ Σ_n ‖A[n] Cᵀ - V[n]‖² + ½ λ (‖A‖² + ‖B‖² + ‖C‖²).

The second sum is present if a ``layer`` V is given: one more annotator, who is known on all items.  At its minimum, the
last term is λ times the nuclear norm of the unfolding (Srebro, Rennie & Jaakkola 2005), so F is the soft-impute problem
(Mazumder, Hastie & Tibshirani 2010) restricted to the rank of the start.  Of the three unfoldings this one is used
because a Dawid-Skene crowd has rank K there and up to K² along annotators; along classes every crowd has K rows.

=========== ====================================== =================
symbol      meaning                                shape
=========== ====================================== =================
``P``       labels of item n by annotator m        (N, M), sparse
``Z``       ... that name class k                  (N, M K), sparse
``V``       the layer, minus 1/K                   (N, K)
``A``       factor of the items                    (N, r)
``B``       factor of the annotators, by class     (M, K, r)
``C``       factor of the layer, by class          (K, r)
=========== ====================================== =================

Either side has a closed form given the other: ridge regression, with r unknowns per item or annotator and class.  No
array of size N M is formed, and a sweep costs labels · r² + N r³.  Balancing the two sides, which does not change X and
lowers the penalty to the nuclear norm, saves most of the sweeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["Completed", "LabelTensor", "complete"]

#: Numbers in the Gram matrices of a block of items.
_BLOCK = 1 << 21
#: Singular values below this share of the largest are zero.
_ROUNDING = 1e-10


class Completed(NamedTuple):
    """The factors of a completed tensor."""

    items: Floats  #: A, (N, r)
    annotators: Floats  #: B, (M, K, r)
    layer: Floats  #: C, (K, r); zero where there was no layer
    history: list[float]  #: F after every sweep
    converged: bool


class LabelTensor:
    """The known entries of T, grouped by item; repeated labels count repeatedly."""

    def __init__(self, indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, n_classes: int) -> None:
        self.indptr, self.annotator, self.label = indptr, annotator, label
        self.shape = indptr.size - 1, n_annotators, n_classes

    def blocks(self, rank: int) -> list[tuple[slice, Any, Any]]:
        """Return P and Z in blocks of items, each small enough for the Gram matrices of its items."""
        from scipy.sparse import csr_array

        N, M, K = self.shape
        rows = max(_BLOCK // (rank * rank), 1)
        made = []
        for start in range(0, N, rows):
            stop = min(start + rows, N)
            begin, end = int(self.indptr[start]), int(self.indptr[stop])
            indptr = self.indptr[start : stop + 1] - begin
            by = self.annotator[begin:end].astype(np.int64)
            ones = np.ones(by.size)
            P = csr_array((ones, by, indptr), shape=(stop - start, M))
            Z = csr_array((ones, by * K + self.label[begin:end], indptr), shape=(stop - start, M * K))
            made.append((slice(start, stop), P, Z))
        return made


def complete(
    tensor: LabelTensor,
    start: Floats,
    *,
    penalty: float,
    layer: Floats | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
    callback: Callable[[int, float, float], Any] | None = None,
) -> Completed:
    """Complete a tensor from the items' factor ``start``, (N, r), by alternating least squares.

    Parameters
    ----------
    tensor
        The labels.
    start
        The initial items' factor; its number of columns is the rank.
    penalty
        λ > 0.
    layer
        V, (N, K): an annotator known for all items, or None.
    max_iter, tol
        Sweeps, and the relative fall of F that ends them (0: run all).
    callback
        Called after every sweep with its number, F and the relative fall; ends the fit by returning True.
    """
    N, _, K = tensor.shape
    A = np.array(start, np.float64)
    blocks = tensor.blocks(A.shape[1])
    V: Floats = np.zeros((N, K)) if layer is None else layer - 1.0 / K
    energy = tensor.label.size * (1.0 - 1.0 / K) + float(np.vdot(V, V))
    B, C = np.zeros((tensor.shape[1], K, A.shape[1])), np.zeros((K, A.shape[1]))
    history: list[float] = []
    converged = False
    for sweep in range(1, max_iter + 1):
        B = _annotators(blocks, A, K, penalty)
        if layer is not None:
            # C[k] = (Σ_n A_n A_nᵀ + λ I)⁻¹ Σ_n V[n, k] A_n
            C = _ridge((A.T @ A)[None], (V.T @ A)[None], penalty)[0]
        B, C = _balanced(A, B, C)
        A, explained = _items(blocks, B, C, V, penalty)
        objective = 0.5 * (energy - explained + penalty * float(np.vdot(B, B) + np.vdot(C, C)))
        fall = (history[-1] - objective) / max(history[-1], np.finfo(float).tiny) if history else float("nan")
        history.append(objective)
        if callback and callback(sweep, objective, fall):
            break
        if tol > 0 and fall <= tol:
            converged = True
            break
    return Completed(A, B, C, history, converged)


def _annotators(blocks: list[tuple[slice, Any, Any]], A: Floats, K: int, penalty: float) -> Floats:
    """Return B[m, k] = (Σ_n A_n A_nᵀ + λ I)⁻¹ Σ_n T[n, m, k] A_n, sums over the items that m labelled."""
    r, M = A.shape[1], blocks[0][1].shape[1]
    gram, named = np.zeros((M, r * r)), np.zeros((M * K, r))
    for rows, P, Z in blocks:
        a = A[rows]
        gram += P.T @ (a[:, :, None] * a[:, None, :]).reshape(-1, r * r)
        named += Z.T @ a
    # T is one where the class was named, less 1/K everywhere
    sides = named.reshape(M, K, r)
    return _ridge(gram.reshape(M, r, r), sides - sides.mean(axis=1, keepdims=True), penalty)


def _items(
    blocks: list[tuple[slice, Any, Any]], B: Floats, C: Floats, V: Floats, penalty: float
) -> tuple[Floats, float]:
    """Return A_n = (Σ B Bᵀ + λ I)⁻¹ Σ T B, sums over n's annotators and classes, and Σ_n A_nᵀ Σ T B.

    With the optimal A, F = ½ (‖T‖² + ‖V‖² - Σ_n A_nᵀ Σ T B + λ ‖B‖²).
    """
    M, K, r = B.shape
    # Σ_k T[n, m, k] B[m, k] = B[m, label], for Σ_k B[m, k] = 0
    gram = np.einsum("mkr,mks->mrs", B, B).reshape(M, r * r)
    everywhere = C.T @ C
    A, explained = np.empty((len(V), r)), 0.0
    for rows, P, Z in blocks:
        sides = Z @ B.reshape(M * K, r) + V[rows] @ C
        G = (P @ gram).reshape(-1, r, r) + everywhere
        A[rows] = _ridge(G, sides[:, None, :], penalty)[:, 0, :]
        explained += float(np.vdot(A[rows], sides))
    return A, explained


def _ridge(gram: Floats, sides: Floats, penalty: float) -> Floats:
    """Solve (G + λ I) x = side for many Grams, (J, r, r), and the sides of each, (J, K, r)."""
    r = gram.shape[1]
    gram[:, np.arange(r), np.arange(r)] += penalty
    solved = np.linalg.solve(gram, sides.transpose(0, 2, 1)).transpose(0, 2, 1)
    return np.ascontiguousarray(solved, np.float64)


def _balanced(A: Floats, B: Floats, C: Floats) -> tuple[Floats, Floats]:
    """Return the annotators' side of the same X with both sides' norms equal in every singular direction.

    The next half-sweep computes A from it.
    """
    M, K, r = B.shape
    # after QR of both sides only an r x r matrix must be decomposed: A [B C]ᵀ = Q' (R' Rᵀ) Qᵀ
    Q, R = np.linalg.qr(np.concatenate([B.reshape(M * K, r), C]))
    right, sigma, _ = np.linalg.svd(R @ np.linalg.qr(A)[1].T, full_matrices=False)
    # the root would inflate directions that are only rounding
    sigma[sigma <= _ROUNDING * sigma.max(initial=0.0)] = 0.0
    side: Floats = Q @ (right * np.sqrt(sigma))
    return side[: M * K].reshape(M, K, -1), side[M * K :]
