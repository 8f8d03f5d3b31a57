"""The scaled forward-backward pass over a block of sequences, compiled for a number of classes.

The equations and symbols are those of :mod:`consilience.kernels.chains`.  What makes it fast:

* All that :mod:`consilience.kernels.em` does: products of probabilities instead of logarithms, a running
  likelihood, unrolled classes, weight and count of a cell side by side.
* α_n and b_n are divided by the sum s_n of α_n, so β needs no scaling of its own.
* Σ_n α_n(k) b_n+1(i) β_n+1(i) is summed without T, which multiplies it once at the end.
* Scratch is α and b of the longest sequence of a block: 2K numbers per token.

Accuracy.  A number underflows below 1e-308.  As s_n ≥ ``_LEAST``, this takes an α_n(k) / s_n below ``_SMALL_ALPHA``, or
a transition below ``LEAST_TRANSITION``, and the loss is at most 1e-108 of the sum of some α_n.  A loss at (n, k) lowers
the likelihood by the share lost · β_n(k), so the sequence is right if no β exceeds ``_LARGE_BETA``.  All others are
repeated in logarithms (:mod:`consilience.kernels.chains_log`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from consilience.kernels._compile import from_source, inlined
from consilience.kernels._compile import kernel as compiled_kernel
from consilience.kernels.em_source import AHEAD, MOST_UNROLLED, by_class

__all__ = ["LEAST_TRANSITION", "kernel"]

#: Up to this many classes products with T are unrolled too: faster by up to a third, but slow to compile.
_MOST_WRITTEN_OUT = 9
#: The smallest sum of α_n that is accepted; the largest is one over it.
_LEAST = 1e-100
#: The smallest positive transition that needs no check; times _LEAST and _SMALL_ALPHA it is above 1e-308.
LEAST_TRANSITION = 1e-50
_SMALL_ALPHA = 1e-150
_LARGE_BETA = 1e60

# A line with @ is repeated for every class, with the class for @; if not unrolled, it becomes a loop over arrays.
_SOURCE = """
def {name}(first, stop, labels, start, onward, back, doubtful, table, alpha, b, out, pairs, sums, redo):
    bounds, indptr, annotator, symbol, n_symbols, gold, owner = labels
    running = 1.0
    log_likelihood = 0.0
    K = start.size
    power = empty(K)
    {arrays}
    classes@ = 0.0
    firsts@ = 0.0
    {prefetch}ahead = uint64(indptr[bounds[first]])
    {prefetch}last = uint64(indptr[bounds[stop]])
    for sequence in range(first, stop):
        begin = bounds[sequence]
        end = bounds[sequence + 1]
        if end == begin:
            continue
        before = running
        log_likelihood_before = log_likelihood
        right = True
        least@ = 1.0
        f@ = start[@]
        low = uint64(indptr[begin])
        for n in range(begin, end):
            row = uint64(n - begin)
            high = uint64(indptr[n + 1])
            known = int64(gold[n]) if gold.size > 0 else -1
            {prefetch}limit = min(high + uint64({ahead}), last)
            {prefetch}while ahead < limit:
            {prefetch}    prefetch(table, uint64(annotator[ahead]) * n_symbols + uint64(symbol[ahead]))
            {prefetch}    ahead += uint64(1)
            p@ = 1.0
            if high - low <= uint64(16):
                for i in range(low, high):
                    r = uint64(annotator[i]) * n_symbols + uint64(symbol[i])
                    p@ *= table[r, @]
            else:
                log_likelihood += many_labels(low, high, labels, known, table, power, b[row])
                p@ = b[row, @]
            low = high
            if known >= 0:
                p@ = p@ if known == owner[@] else 0.0
                f@ = f@ if known == owner[@] else 0.0
            a@ = f@ * p@
            s = sum(a@)
            if not ({least} <= s <= {most}):
                right = False
                break
            running *= s
            if not ({least} <= running <= {most}):
                log_likelihood += log(running)
                running = 1.0
            # multiply by T before dividing by s: the product need not wait for the sum
            inverse = 1.0 / s
            scaled@ = a@ * inverse
            p@ *= inverse
            possible@ = scaled@ if f@ > 0.0 else 1.0
            least@ = possible@ if possible@ < least@ else least@
            b[row, @] = p@
            {forward}
            f@ *= inverse
            alpha[row, @] = scaled@
        if right:
            smallest = 1.0
            smallest = min(smallest, least@)
            if doubtful or smallest < {small_alpha}:
                right = largest_beta(b, back, row) <= {large_beta}
        if not right:
            redo[sequence] = 1
            running = before
            log_likelihood = log_likelihood_before
            continue
        beta@ = 1.0
        high = uint64(indptr[end])
        for n in range(end - 1, begin - 1, -1):
            row = uint64(n - begin)
            q@ = alpha[row, @] * beta@
            inverse = 1.0 / sum(q@)
            q@ *= inverse
            classes@ += q@
            low = uint64(indptr[n])
            for i in range(low, high):
                r = uint64(annotator[i]) * n_symbols + uint64(symbol[i])
                table[r, {K} + @] += q@
            high = low
            if out.size > 0:
                out[n, @] = q@
            if row > uint64(0):
                # the limit keeps the meaningless β of unreachable classes from becoming inf · 0
                v@ = min(b[row, @] * beta@, 1e300)
                before_row = row - uint64(1)
                for j in range({K}):
                    one = alpha[before_row, j]
                    pairs[j, @] += one * v@
                {backward}
            else:
                firsts@ += q@
    sums[@] = classes@
    sums[{K} + @] = firsts@
    sums[2 * K] = log_likelihood + log(running)
"""


#: Names that are followed by @.
_BY_CLASS = ("classes", "firsts", "least", "f", "p", "a", "scaled", "possible", "beta", "q", "v")


def _product(to: str, scalars: str, rows: str, matrix: str, written_out: int) -> str:
    """Return source for ``to = scalars · matrix``; ``rows`` is scratch from which a loop reads the scalars."""
    if written_out:  # two independent chains of additions run in parallel
        terms = [f"{scalars}{j} * {matrix}[{j}, @]" for j in range(written_out)]
        return f"{to}@ = " + " + ".join("(" + " + ".join(half) + ")" for half in (terms[::2], terms[1::2]) if half)
    lines = f"{rows}[row, @] = {scalars}@", f"{to}@ = 0.0", "for j in range({K}):"
    return "\n".join([*lines, f"    one = {rows}[row, j]", f"    {to}@ += one * {matrix}[j, @]"])


def _source(name: str, K: int, prefetch: bool) -> str:
    """Return source of the sweep for K classes, unrolled, or (K = 0) for any number."""
    written_out = K if K <= _MOST_WRITTEN_OUT else 0
    blocks_of_lines = {
        "forward": _product("f", "a", "alpha", "onward", written_out),
        "backward": _product("beta", "v", "b", "back", written_out),
        "arrays": "" if K else "\n".join(f"{a} = empty(K)" for a in _BY_CLASS),
    }
    lines: list[str] = []
    for line in _SOURCE.strip("\n").splitlines():
        text = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if text[1:-1] in blocks_of_lines:
            lines += [indent + part for part in blocks_of_lines[text[1:-1]].splitlines()]
        elif prefetch or "{prefetch}" not in line:
            lines.append(line.replace("{prefetch}", ""))
    values = {
        "name": name,
        "K": K or "K",
        "ahead": AHEAD,
        "least": _LEAST,
        "most": 1.0 / _LEAST,
        "small_alpha": _SMALL_ALPHA,
        "large_beta": _LARGE_BETA,
    }
    template = re.sub(r"sum\((\w+)@\)", lambda found: _sum(found[1], K), "\n".join(lines))
    return by_class(template, K).format(**values)


def _sum(name: str, K: int) -> str:
    """Return source of the sum over the classes."""
    return _tree([f"{name}{k}" for k in range(K)]) if K else f"{name}.sum()"


def _tree(terms: list[str]) -> str:
    """Return source of a sum as a balanced tree, which has the shortest chain of dependent additions."""
    middle = (len(terms) + 1) // 2
    return f"({_tree(terms[:middle])} + {_tree(terms[middle:])})" if len(terms) > 1 else terms[0]


def _many_labels(low: Any, high: Any, labels: Any, known: Any, table: Any, power: Any, p: Any) -> Any:
    """Multiply any number of weights into ``p``, each class with its own power of two; return the log left out."""
    _, _, annotator, symbol, n_symbols, _, owner = labels
    K = p.size
    for k in range(K):
        p[k] = 1.0
        power[k] = 0.0
    for i in range(low, high):
        r = np.uint64(annotator[i]) * n_symbols + np.uint64(symbol[i])
        for k in range(K):
            p[k] *= table[r, k]
            if p[k] < 2.0**-256:
                p[k] *= 2.0**512
                power[k] -= 1.0
    # the scale of an excluded class must not count
    top = -np.inf
    for k in range(K):
        if (known < 0 or owner[k] == known) and power[k] > top:
            top = power[k]
    for k in range(K):
        if known >= 0 and owner[k] != known:
            p[k] = 0.0
        elif power[k] != top:
            p[k] *= (2.0**512) ** (power[k] - top)
    return top * 512.0 * np.log(2.0)


def _largest_beta(b: Any, back: Any, last: Any) -> Any:
    """Return the largest backward variable of a sequence, inf if one overflows."""
    K = back.shape[0]
    beta, v = np.ones(K), np.empty(K)
    largest = 1.0
    for step in range(last):
        for i in range(K):
            v[i] = b[last - np.uint64(step), i] * beta[i]
        for k in range(K):
            beta[k] = 0.0
            for i in range(K):
                beta[k] += back[i, k] * v[i]
            if not beta[k] <= largest:
                largest = beta[k]
        if not largest < np.inf:
            return np.inf
    return largest


@lru_cache(maxsize=64)
def kernel(K: int, labels: str, prefetch: bool) -> Callable[..., None]:
    """Compile the sweep for K classes and this type of labels."""
    from consilience.kernels import _intrinsics

    unrolled = K if K <= MOST_UNROLLED else 0
    name = f"chains_{unrolled or 'looped'}{'_prefetch' if prefetch else ''}"
    names = {
        "uint64": np.uint64,
        "int64": np.int64,
        "log": np.log,
        "empty": np.empty,
        "prefetch": _intrinsics.prefetch,
        "many_labels": inlined(_many_labels),
        "largest_beta": inlined(_largest_beta),
    }
    function = from_source(_source(name, unrolled, prefetch), name, __name__, __file__, names)
    model = "float64[] float64[,] float64[,] boolean"
    sums = "float64[,]! float64[,]! float64[,]! float64[,]! float64[,]! float64[]! uint8[]!"
    return compiled_kernel(function, f"int64 int64 {labels} {model} {sums}")
