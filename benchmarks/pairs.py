"""Counting the label pairs of all pairs of annotators, next to scipy's sparse product.

Z has a row for each item and a column for each annotator and class, with a one if annotator m said i: Zᵀ Z holds the
counts of all pairs.  scipy multiplies on one core and ours counts on all, so the ratio is valid on an idle machine
only.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks.crowds import crowd
from benchmarks.figures import Figure, best_of
from consilience.data.annotations import Annotations
from consilience.moments import CoOccurrences, pair_moments

SCRIPT = """
import gc, resource, threading, time
from benchmarks.crowds import crowd
from consilience.moments import pair_moments

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

pair_moments(crowd(100_000, 50_000, 4))  # load and compile everything
a = crowd(10**7, 50_000, 4)
gc.collect()
before, peak, done = resident(), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, resident()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
begun = time.perf_counter()
pairs = pair_moments(a)
seconds = time.perf_counter() - begun
done = True; thread.join()
print(seconds, (max(peak, resident()) - before) / 1e6, (pairs.who.nbytes + pairs.counts.nbytes) / 1e6, len(pairs))
"""


def sparse(a: Annotations) -> Any:
    """Return Z in the format that scipy multiplies fastest: rows are already contiguous in the annotations."""
    columns = a.annotator.astype(np.int32) * np.int32(a.n_classes) + a.label
    shape = a.n_items, a.n_annotators * a.n_classes
    return csr_array((np.ones(a.n_labels, np.int32), columns, a.indptr.astype(np.int32)), shape=shape)


def product(Z: Any) -> Any:
    return Z.T @ Z


def same(pairs: CoOccurrences, table: Any) -> bool:
    """Return whether both ways counted the same."""
    M, K = pairs.n_annotators, pairs.n_classes
    blocks = table.toarray().reshape(M, K, M, K)
    return bool(np.array_equal(blocks[pairs.who[:, 0], :, pairs.who[:, 1], :], pairs.counts))


def compare(a: Annotations) -> list[Figure]:
    """Time ours and scipy's in turn, a second or two each, so that disturbances of the machine affect both."""
    Z = sparse(a)
    assert same(pair_moments(a), product(Z))
    works = (40, partial(pair_moments, a)), (10, partial(sparse, a)), (1, partial(product, Z))
    ours, making, alone = np.min([[best_of(n, work) for n, work in works] for _ in range(5)], axis=0).tolist()
    shape = "1e7 labels, M = 50, K = 4"
    return [
        Figure(f"pairs, {shape}", ours / a.n_labels * 1e9, unit="ns/label"),
        Figure(f"scipy's Zᵀ Z with making Z / ours, {shape}", (making + alone) / ours, 40, up=True, unit="x"),
        Figure(f"scipy's Zᵀ Z alone / ours, {shape}", alone / ours, unit="x"),
    ]


def run() -> list[Figure]:
    a = crowd(10**7, 1000)
    pair_moments(a)  # compiles
    ours = best_of(7, lambda: pair_moments(a))
    figures = [Figure("pairs, 1e7 labels, M = 1000, K = 4", ours / a.n_labels * 1e9, 60, unit="ns/label")]
    figures += compare(crowd(10**7, 50))
    output = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    seconds, peak, kept, found = map(float, output.split())
    shape = "1e7 labels, M = 50,000, K = 4"
    return [
        *figures,
        Figure(f"pairs, {shape}: {found:.3g} of them", seconds, unit="s"),
        Figure(f"pairs, {shape}: peak memory beyond the annotations", peak, unit="MB"),
        Figure(f"pairs, {shape}: of which the result", kept, unit="MB"),
    ]
