"""Sketches: random matrices R with few columns that compress the samples into a dictionary.

    B = X R                                   (dictionary of Alg. 2.1: D × n, out of N samples)
    X̌ = Ř X                                   (fewer features, Alg. 2.2: d × N, out of D features)

in the columns of the thesis; here samples are rows, and both are ``sketch.apply``: Rᵀ X, and ``apply(X.T).T`` on the
other side.  Every kind is a Johnson-Lindenstrauss transform (Definition 2.1), scaled so that E[R Rᵀ] = I:

* ``"rademacher"``: independent ±1 / √n;
* ``"gaussian"``: independent N(0, 1) / √n;
* ``"count"``: one ±1 in every row, at a random column (sparse embedding, CountSketch);
* ``"hadamard"``: n random columns of a Hadamard matrix, rows with random signs, over √n (subsampled randomised
  Hadamard transform).

Rows are drawn in fixed blocks, block b by a counter-based generator that is keyed with (seed, b).  So the nodes of
Alg. 2.4 agree on R from the seed alone, and with any cutting of the samples into pieces

    B = Σ_ℓ X_ℓ R_ℓ                                                                             (2.23).

====== ============================== ============
symbol name                           shape
====== ============================== ============
R      ``Sketch.toarray()``           (N, n)
X      ``X``, samples are rows        (N, D)
B      ``Sketch.apply(X)``            (n, D)
====== ============================== ============

P. A. Traganitis (2019), Sections 2.2 and 2.5.1; K. L. Clarkson and D. P. Woodruff, "Low-rank approximation and
regression in input sparsity time", Journal of the ACM 63 (2017); N. Ailon and B. Chazelle, "The fast
Johnson-Lindenstrauss transform and approximate nearest neighbors", SIAM Journal on Computing 39 (2009).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Ints
from consilience.validation import whole

__all__ = ["Sketch", "SketchKind", "default_n_sketch", "make_sketch"]

SketchKind: TypeAlias = Literal["rademacher", "gaussian", "count", "hadamard"]

#: Rows drawn together; a power of two, which the Hadamard sketch needs.  Changing it changes every sketch.
_BLOCK = 1 << 12
#: Samples from which the spectrum is estimated.
_SPECTRUM = 1 << 12
#: Columns beyond the rank (Halko, Martinsson & Tropp 2011, Section 4.2).
_OVERSAMPLING = 10


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "tocsr")


class Sketch(ABC):
    """A random matrix R, (N, n), applied in blocks of rows to dense or scipy sparse matrices."""

    def __init__(self, n_rows: int, n_columns: int, seed: int) -> None:
        self.n_rows = n_rows
        self.n_columns = n_columns
        self.seed = seed

    @property
    def shape(self) -> tuple[int, int]:
        """(N, n)."""
        return self.n_rows, self.n_columns

    def apply(self, X: Any) -> Any:
        """Return Rᵀ X, (n, D), in the precision of X."""
        X = X if _is_sparse(X) else np.asarray(X)
        if X.shape[0] != self.n_rows:
            raise DataError(
                f"the sketch is for {self.n_rows} rows, but the matrix has {X.shape[0]}; make a sketch of that size"
            )
        return self.apply_block(X, 0)

    def apply_right(self, X: Any) -> Any:
        """Return X R for X of N columns, in the precision of X."""
        return self.apply(X.T.tocsr() if _is_sparse(X) else np.asarray(X).T).T

    def apply_block(self, X_block: Any, start: int) -> Any:
        """Return the contribution of the rows ``start …`` of X to Rᵀ X, (n, D)."""
        X = X_block.tocsr() if _is_sparse(X_block) else np.asarray(X_block)
        if X.ndim != 2:
            raise DataError(f"a sketch multiplies a matrix, not an array of shape {X.shape}")
        if not 0 <= start <= start + X.shape[0] <= self.n_rows:
            raise DataError(
                f"rows {start} … {start + X.shape[0] - 1} were given to a sketch of rows 0 … {self.n_rows - 1}"
            )
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        # Summed in double precision, so that the cuts of rows change the last digits only.
        total = np.zeros((self.n_columns, X.shape[1]))
        for block, first, stop in self._cut(start, start + X.shape[0]):
            rows = X[first + block * _BLOCK - start : stop + block * _BLOCK - start]
            if _is_sparse(rows):
                total += (rows.T @ self._rows(block, X.dtype)[first:stop]).T
            else:
                total += self._product(rows, block, first)
        return total.astype(X.dtype, copy=False)

    def toarray(self) -> Any:
        """Return R, (N, n), dense."""
        R = np.empty(self.shape)
        for block, first, stop in self._cut(0, self.n_rows):
            R[block * _BLOCK + first : block * _BLOCK + stop] = self._rows(block, np.float64)[first:stop]
        return R

    @staticmethod
    def _cut(start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield (block, first row, row after the last) over the rows ``start … stop - 1``."""
        for block in range(start // _BLOCK, -(-stop // _BLOCK)):
            yield block, max(start - block * _BLOCK, 0), min(stop - block * _BLOCK, _BLOCK)

    def _size(self, block: int) -> int:
        return min(_BLOCK, self.n_rows - block * _BLOCK)

    def _generator(self, block: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=np.array([self.seed, block], np.uint64)))

    @abstractmethod
    def _rows(self, block: int, dtype: Any) -> Any:
        """Return all rows of R in a block, dense."""

    def _product(self, X: Any, block: int, first: int) -> Any:
        """Return R[rows of X]ᵀ X for rows in one block, from its row ``first`` on."""
        return self._rows(block, X.dtype)[first : first + len(X)].T @ X


class _Rademacher(Sketch):
    # sklearn.random_projection draws all of R from one stream, N n floats at once, so it cannot be cut.
    def _rows(self, block: int, dtype: Any) -> Any:
        size, width = self._size(block), -(-self.n_columns // 8)
        drawn = np.frombuffer(self._generator(block).bytes(size * width), np.uint8).reshape(size, width)
        R = np.unpackbits(drawn, axis=1, count=self.n_columns).astype(dtype)
        R *= 2.0 / np.sqrt(self.n_columns)
        R -= 1.0 / np.sqrt(self.n_columns)
        return R


class _Gaussian(Sketch):
    def _rows(self, block: int, dtype: Any) -> Any:
        # Always drawn in single precision: the same R for either precision of X.
        R = self._generator(block).standard_normal((self._size(block), self.n_columns), np.float32)
        R *= np.float32(1.0 / np.sqrt(self.n_columns))
        return R.astype(dtype, copy=False)


class _Count(Sketch):
    # scipy.linalg.clarkson_woodruff_transform does the same product, but draws all N rows from one stream, which a node
    # that holds some of them cannot do; and it took 7 s where this takes 0.3 s (10⁶ × 100 in single precision).
    def _drawn(self, block: int) -> tuple[Ints, Any]:
        rng = self._generator(block)
        column = rng.integers(self.n_columns, size=self._size(block))
        return column, 2.0 * rng.integers(2, size=column.size) - 1.0

    def _rows(self, block: int, dtype: Any) -> Any:
        column, sign = self._drawn(block)
        R = np.zeros((column.size, self.n_columns), dtype)
        R[np.arange(column.size), column] = sign
        return R

    def _product(self, X: Any, block: int, first: int) -> Any:
        from scipy.sparse import csc_array

        m = len(X)
        column, sign = (drawn[first : first + m] for drawn in self._drawn(block))
        Rt = csc_array((sign.astype(X.dtype), column, np.arange(m + 1)), shape=(self.n_columns, m))
        return Rt @ np.ascontiguousarray(X)


class _Hadamard(Sketch):
    """R = diag(ε) H[:, J] / √n with H[i, j] = (-1)^popcount(i & j).

    With i = i' + 2ᵇ block and j = j' + 2ᵇ j″ the entry is H[i', j'] H[block, j″]: the first factor is one table for all
    blocks, the second a sign for each column.  So a block is a product with that table.
    """

    # SciPy has no fast transform.  One in NumPy took 8.7 ms for a block of 100 features, this product 0.8 ms with 70
    # columns and 2.2 ms with 200.
    def __init__(self, n_rows: int, n_columns: int, seed: int) -> None:
        super().__init__(n_rows, n_columns, seed)
        length = 1 << max(n_rows - 1, 1).bit_length()
        if n_columns > length:
            raise ParameterError(
                f"a Hadamard sketch of {n_rows} rows has at most {length} columns, and {n_columns} were asked for; "
                "ask for fewer, or take sketch='rademacher'"
            )
        # The last key belongs to no block.
        rng = np.random.Generator(np.random.Philox(key=np.array([seed, 2**64 - 1], np.uint64)))
        self._columns: Ints = rng.choice(length, n_columns, replace=False)
        rows = np.arange(min(_BLOCK, n_rows))
        self._table = _parity(rows[:, None] & (self._columns & (_BLOCK - 1))) / np.sqrt(np.float32(n_columns))

    def _signs(self, block: int) -> tuple[Any, Any]:
        rows = 2.0 * self._generator(block).integers(2, size=self._size(block)) - 1.0
        return rows, _parity(block & (self._columns >> (_BLOCK.bit_length() - 1)))

    def _rows(self, block: int, dtype: Any) -> Any:
        rows, columns = self._signs(block)
        return (rows[:, None] * self._table[: rows.size] * columns).astype(dtype)

    def _product(self, X: Any, block: int, first: int) -> Any:
        rows, columns = self._signs(block)
        part = slice(first, first + len(X))
        table = self._table[part].astype(X.dtype, copy=False)
        return columns[:, None] * (table.T @ (rows[part, None].astype(X.dtype) * X))


def _parity(bits: Any) -> Any:
    """Return (-1)^popcount."""
    return np.float32(1.0) - np.float32(2.0) * (np.bitwise_count(bits) & 1).astype(np.float32)


_KINDS: dict[str, type[Sketch]] = {
    "rademacher": _Rademacher,
    "gaussian": _Gaussian,
    "count": _Count,
    "hadamard": _Hadamard,
}


def make_sketch(kind: SketchKind, n_rows: int, n_columns: int, random_state: Any = None) -> Sketch:
    """Draw a sketch.

    Parameters
    ----------
    kind
        The thesis found ``"rademacher"`` the most dependable (Fig. 2.1).
    n_rows
        N, the rows of what is to be compressed.
    n_columns
        n, the rows of what comes out.
    random_state
        A seed or a generator.  Same seed, same sketch, on every node.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.subspace.sketches import make_sketch
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> sketch = make_sketch("rademacher", 6, 3, random_state=0)
    >>> bool(np.allclose(sketch.apply(X), sketch.apply_block(X[:4], 0) + sketch.apply_block(X[4:], 4)))
    True
    """
    if kind not in _KINDS:
        raise ParameterError(f"a sketch must be one of {', '.join(map(repr, get_args(SketchKind)))}, not {kind!r}")
    n_rows, n_columns = whole("n_rows", n_rows), whole("n_columns", n_columns)
    seed = int(np.random.default_rng(random_state).integers(2**63))
    return _KINDS[kind](n_rows, n_columns, seed)


def default_n_sketch(X: Any) -> int:
    """Return the number of columns n of a sketch from the numerical rank of X, (N, D).

    The rank is that of X where X has one well below full.  Otherwise it is the number of equal singular values that
    would have the same sum and sum of squares, (Σ σ)² / Σ σ², which never exceeds the rank.  As many columns, and a
    few, would preserve the range (Proposition 2.1); with twice as many, X R Rᵀ Xᵀ is also near X Xᵀ, and simulated
    subspaces are separated far better where the spectrum falls or codes are sparse.  The spectrum is that of 4096
    samples when there are more; missing entries (NaN) count as 0.
    """
    X = np.asarray(X)
    N, D = X.shape
    if N > _SPECTRUM:
        X = X[np.sort(np.random.default_rng(0).choice(N, _SPECTRUM, replace=False))]
    X = np.nan_to_num(X.astype(np.float64), copy=False)
    squares = np.maximum(np.linalg.eigvalsh(X @ X.T if X.shape[0] < D else X.T @ X), 0.0)
    # Eigenvalues of the Gram matrix are known to this relative error.
    squares = squares[squares > squares.max(initial=0.0) * max(X.shape) * np.finfo(np.float64).eps]
    if not squares.size:
        return 1
    rank = squares.size
    if rank > min(X.shape) / 2:
        rank = int(np.ceil(np.sqrt(squares).sum() ** 2 / squares.sum()))
    return int(min(2 * rank + _OVERSAMPLING, N))
