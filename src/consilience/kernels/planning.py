"""Which label to collect next, greedily: for every item the most informative annotators, then the best item first.

An item has the posterior q.  The gain of a label of annotator m, after labels of the annotators P already planned, is

    I(truth; label of m | labels of P)  =  Σ_b [ s_b log s_b - Σ_i p_bi log p_bi ]  -  Σ_k q_k h_mk,

    v_bk = q_k ∏_(j ∈ P) A_j(b_j, k),   s_b = Σ_k v_bk,   p_bi = Σ_k A_m(i, k) v_bk,
    h_mk = -Σ_i A_m(i, k) log A_m(i, k),

in bits, over all answers b that P can give.  It never grows with P, so an item whose gain is still the largest of all
when computed anew is the best (lazy greedy).

====== =============================================== ===================
symbol name                                            shape
====== =============================================== ===================
q      ``q``                                           (N, K)
A      ``confusions``                                  (M, K, K)
h      ``noise``                                       (M, K)
..     ``best``, the best annotators of each item      (N, L), -1 for none
..     ``weight`` of a label beside t others           (T,)
====== =============================================== ===================
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints, even_parts
from consilience.kernels._compile import kernel

__all__ = ["BRANCHES", "expected_right", "gains_of", "mean_gains", "plan_labels"]

#: Annotators on the short list of each item.
_SHORT_LIST = 12
#: Most combinations of answers to look ahead at; beyond, gains are assumed to shrink at the same rate.
BRANCHES = 64
#: Steps of a table of -p log p for the short lists: right to 4 digits.
_STEPS = 1 << 13

#: Types of what all loops share, and of the short lists.
_SHARED = "(float64[,,] float64[,] int64[] int64[] int64[] int64[] int64[] int64[] float64[] int64[]! float64[])"
_LISTS = "int32[,]! float64[,]!"


def plan_labels(
    q: Floats,
    confusions: Floats,
    indptr: Ints,
    annotator: Codes,
    candidates: tuple[Ints, Ints],
    n_labels: Ints,
    weight: Floats,
    costs: Floats,
    capacity: Ints,
    budget: float,
    planned: Ints,
) -> tuple[Ints, Ints, Floats]:
    """Choose labels until the budget is used up; return items, annotators, and the gain of each in bits.

    Parameters
    ----------
    q, confusions
        Posterior and model.
    indptr, annotator
        Who labelled each item already; they are not asked again.
    candidates
        Who can be asked about each item, as compressed rows; without row starts, the same annotators about every item.
    n_labels
        Labels of each item, (N,).
    weight
        Gain of a label beside t others, as a share of its gain alone, (T,); the last one holds for all larger t.
    costs, capacity
        Cost of a label, and labels available, of each annotator, (M,).
    budget
        Largest total cost.
    planned
        Pairs already planned, (P, 2), sorted by item; they use neither budget nor capacity.
    """
    N = q.shape[0]
    q, A = np.ascontiguousarray(q), np.ascontiguousarray(confusions)
    n_labels = np.ascontiguousarray(n_labels, np.int64)
    noise = noise_of(A)
    best, worth = np.full((N, _SHORT_LIST), -1, np.int32), np.zeros((N, _SHORT_LIST))
    open_to = np.ascontiguousarray(candidates[0], np.int64), np.ascontiguousarray(candidates[1], np.int64)
    who = np.ascontiguousarray(annotator, np.int64)
    first = np.concatenate([[0], np.cumsum(np.bincount(planned[:, 0], minlength=N))]).astype(np.int64)
    mine = np.ascontiguousarray(planned[:, 1], np.int64)
    left = np.ascontiguousarray(capacity, np.int64).copy()
    # every loop takes these as one tuple
    shared = (A, noise, indptr, who, *open_to, first, mine, costs, left, _entropy_table())
    short_list = kernel(_short_list, f"float64[,] {_SHARED} int64 int64 {_LISTS}", helpers=(_fill,))
    blocks.run(lambda a, b: short_list(q, shared, a, b, best, worth), even_parts(N, N >> 12))
    cheapest = float(costs[left > 0].min(initial=np.inf))
    most = int(min(budget / cheapest + 1e-9, float(np.minimum(left, N).sum())))
    item, asked, gain = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    arguments = f"float64[,] {_SHARED} int64[] float64[] float64 float64 {_LISTS} int64[]! int64[]! float64[]!"
    greedy = kernel(_greedy, arguments, "int64", helpers=(_fill, _branch, _after, _sift_down))
    n = greedy(q, shared, n_labels, weight, float(budget), cheapest, best, worth, item, asked, gain)
    return item[:n], asked[:n], gain[:n]


@lru_cache(maxsize=1)
def _entropy_table() -> Floats:
    p = np.arange(_STEPS + 2) / _STEPS
    return np.ascontiguousarray(-p * np.log2(np.maximum(p, 1e-300)))


def noise_of(confusions: Floats) -> Floats:
    """Return h, the entropy of each annotator's labels given each class, (M, K)."""
    logs = np.log2(np.maximum(confusions, 1e-300))
    noise: Floats = -np.einsum("mik,mik->mk", confusions, logs)
    return noise


def gains_of(q: Floats, confusions: Floats, annotator: Ints) -> Floats:
    """Return the gain of one label of these annotators, one for each row of q, in bits."""
    p = np.einsum("nik,nk->ni", confusions[annotator], q)
    entropy = -(p * np.log2(np.maximum(p, 1e-300))).sum(axis=1)
    gains: Floats = np.maximum(entropy - np.einsum("nk,nk->n", q, noise_of(confusions)[annotator]), 0.0)
    return gains


def mean_gains(q: Floats, confusions: Floats) -> Floats:
    """Return the mean gain of one label of each annotator over these items, in bits, (M,)."""
    p = confusions @ q.T
    entropy = -(p * np.log2(np.maximum(p, 1e-300))).sum(axis=1).mean(axis=1)
    gains: Floats = entropy - noise_of(confusions) @ q.mean(axis=0)
    return gains


def expected_right(q: Floats, confusions: Floats, indptr: Ints, annotator: Ints) -> Floats:
    """Return the probability that each item's label will be right once these annotators have answered, (n,).

    E max_k Pr(k | answers) = Σ_b max_k v_bk, looking ahead at no more than ``BRANCHES`` combinations of answers.
    """
    right = np.empty(q.shape[0])
    loop = kernel(_right, "float64[,] float64[,,] int64[] int64[] float64[]!", helpers=(_branch,))
    loop(q, np.ascontiguousarray(confusions), indptr, annotator, right)
    return right


# ---- loops ----------------------------------------------------------------------------------------------------------


def _fill(q: Any, n: Any, shared: Any, best: Any, worth: Any) -> None:
    """List the annotators with the largest gain for their cost on item n, among those who can be asked."""
    A, noise, indptr, who, open_from, open_to, first, mine, costs, left, table = shared
    L = best.shape[1]
    for r in range(L):
        best[n, r] = -1
        worth[n, r] = 0.0
    top = 0.0
    for k in range(q.shape[1]):
        top = max(top, q[n, k])
    if top > 1.0 - 1e-9:
        return
    low, high = (0, open_to.size) if open_from.size == 0 else (open_from[n], open_from[n + 1])
    for at in range(low, high):
        m = open_to[at]
        barred = left[m] <= 0
        for i in range(indptr[n], indptr[n + 1]):
            barred |= who[i] == m
        for i in range(first[n], first[n + 1]):
            barred |= mine[i] == m
        if barred:
            continue
        bits = 0.0
        for i in range(q.shape[1]):
            p = 0.0
            for k in range(q.shape[1]):
                p += A[m, i, k] * q[n, k]
            step = p * (table.size - 2)
            cell = np.int64(step)
            bits += table[cell] + (step - cell) * (table[cell + 1] - table[cell]) - q[n, i] * noise[m, i]
        value = bits / costs[m]
        if value <= worth[n, L - 1] or value <= 1e-9:
            continue
        r = L - 1
        while r > 0 and worth[n, r - 1] < value:
            worth[n, r] = worth[n, r - 1]
            best[n, r] = best[n, r - 1]
            r -= 1
        worth[n, r] = value
        best[n, r] = m


def _short_list(q: Any, shared: Any, start: Any, stop: Any, best: Any, worth: Any) -> None:
    for n in range(start, stop):
        _fill(q, n, shared, best, worth)


def _branch(v: Any, count: Any, A: Any, m: Any) -> Any:
    """Split every branch by the K answers of m, in place, the last one first; branches are the first ``count`` rows."""
    K = v.shape[1]
    for b in range(count - 1, -1, -1):
        for i in range(K - 1, -1, -1):
            for k in range(K):
                v[b * K + i, k] = v[b, k] * A[m, i, k]
    return count * K


def _after(v: Any, count: Any, q: Any, n: Any, A: Any, noise: Any, m: Any) -> Any:
    """Return the gain of a label of m on item n after the answers of the branches, in bits."""
    K = v.shape[1]
    bits = 0.0
    for b in range(count):
        s = 0.0
        for k in range(K):
            s += v[b, k]
        if s < 1e-12:
            continue
        bits += s * np.log2(s)
        for i in range(K):
            p = 0.0
            for k in range(K):
                p += A[m, i, k] * v[b, k]
            if p > 1e-12:
                bits -= p * np.log2(p)
    for k in range(K):
        bits -= q[n, k] * noise[m, k]
    return max(bits, 0.0)


def _sift_down(heap: Any, size: Any, at: Any, key: Any) -> None:
    """Restore the heap below ``at``: larger keys first, the smaller item among equal ones."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size:
            a, b = heap[child], heap[child + 1]
            if key[a] < key[b] or (key[a] == key[b] and a > b):
                child += 1
        a, b = heap[at], heap[child]
        if not (key[a] < key[b] or (key[a] == key[b] and a > b)):
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


def _greedy(
    q: Any,
    shared: Any,
    n_labels: Any,
    weight: Any,
    budget: Any,
    cheapest: Any,
    best: Any,
    worth: Any,
    item: Any,
    asked: Any,
    gain: Any,
) -> Any:
    A, noise, _, _, _, _, first, mine, costs, left, _ = shared
    N, K = q.shape
    L = best.shape[1]
    key = np.empty(N)  # gain for its cost of the best label of each item, or an upper bound
    fresh = np.zeros(N, np.bool_)  # whether it is the gain itself
    choice = np.full(N, -1, np.int64)
    bits = np.zeros(N)
    ahead = np.zeros(N, np.int64)  # labels planned now
    last = np.full((N, 2), -1.0)  # gains of the last two of them
    newest = np.full(N, -1, np.int64)  # place of the last label planned for the item, a chain by `before`
    before = np.full(item.size, -1, np.int64)
    v = np.empty((BRANCHES * max(K, 1), K))
    for n in range(N):
        t = min(n_labels[n] + first[n + 1] - first[n], weight.size - 1)
        key[n] = worth[n, 0] * weight[t]
    heap = np.arange(N)
    for at in range(N // 2 - 1, -1, -1):
        _sift_down(heap, N, at, key)
    size, made, spent = N, 0, 0.0
    while size > 0 and made < item.size and spent + cheapest <= budget + 1e-9:
        n = heap[0]
        if key[n] <= 1e-9:
            break
        m = choice[n]
        usable = fresh[n] and left[m] > 0 and spent + costs[m] <= budget + 1e-9
        if usable:
            item[made], asked[made], gain[made] = n, m, bits[n]
            before[made] = newest[n]
            newest[n] = made
            made += 1
            spent += costs[m]
            left[m] -= 1
            last[n, 0], last[n, 1] = last[n, 1], bits[n]
            ahead[n] += 1
            fresh[n] = False  # the key stays, as a bound
            continue
        # the branches of what is planned for the item
        v[0, :] = q[n]
        count = 1
        deep = False
        for i in range(first[n], first[n + 1]):
            if count * K > BRANCHES:
                deep = True
                break
            count = _branch(v, count, A, mine[i])
        at = newest[n]
        while at >= 0 and not deep:
            if count * K > BRANCHES:
                deep = True
                break
            count = _branch(v, count, A, asked[at])
            at = before[at]
        t = min(n_labels[n] + first[n + 1] - first[n] + ahead[n], weight.size - 1)
        found, top, top_bits = -1, 0.0, 0.0
        for attempt in range(2):
            for r in range(L):
                m = best[n, r]
                if m < 0:
                    break
                if left[m] <= 0 or spent + costs[m] > budget + 1e-9:
                    continue
                taken = False
                at = newest[n]
                while at >= 0:
                    if asked[at] == m:
                        taken = True
                        break
                    at = before[at]
                if taken:
                    continue
                if deep:
                    ratio = 0.9
                    if last[n, 0] > 1e-12 and last[n, 1] > 0.0:
                        ratio = min(0.9, last[n, 1] / last[n, 0])
                    value = min(worth[n, r] * costs[m] * weight[t], max(last[n, 1], 0.0) * ratio)
                    if last[n, 1] < 0.0:  # all was planned before
                        value = worth[n, r] * costs[m] * weight[t] * 0.5
                else:
                    value = _after(v, count, q, n, A, noise, m) * weight[t]
                if value / costs[m] > top:
                    found, top, top_bits = m, value / costs[m], value
            if found >= 0 or attempt == 1:
                break
            # nobody on the short list can be asked any more: make a new one
            _fill(q, n, shared, best, worth)
        if found < 0:
            size -= 1
            heap[0] = heap[size]
        else:
            choice[n], bits[n], fresh[n] = found, top_bits, True
            key[n] = min(key[n], top) if ahead[n] > 0 else top
        _sift_down(heap, size, 0, key)
    return made


def _right(q: Any, A: Any, indptr: Any, annotator: Any, right: Any) -> None:
    K = q.shape[1]
    v = np.empty((BRANCHES * max(K, 1), K))
    for n in range(q.shape[0]):
        v[0, :] = q[n]
        count = 1
        for i in range(indptr[n], indptr[n + 1]):
            if count * K > BRANCHES:
                break
            count = _branch(v, count, A, annotator[i])
        total = 0.0
        for b in range(count):
            top = 0.0
            for k in range(K):
                top = max(top, v[b, k])
            total += top
        right[n] = total
