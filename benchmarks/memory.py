"""Peak memory of a whole aggregate run beyond the arrays of the annotations, in a process of its own.

What the result itself keeps (probabilities, choices, the table of labels, the model) cannot be avoided, so the peak is
also given beyond that, with and without the verdict.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product

from benchmarks.figures import Figure

SCRIPT = """
import gc, json, resource, sys, threading, time
import numpy as np
import consilience as cs
from benchmarks.crowds import crowd
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def shaped(shape, n):
    if shape == "five":
        return crowd(n, 1000, 4)
    rng = np.random.default_rng(0)
    M = 1000 if shape == "two" else n // 2
    sizes = np.full(n // 2, 2) if shape == "two" else np.append(n // 2, np.full(n // 10, 5))
    first = rng.integers(M, size=sizes.size)
    first[0] = 0
    indptr = np.append(0, np.cumsum(sizes))
    place = np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes)
    who = (np.repeat(first, sizes) + place) % M
    truth = np.repeat(rng.integers(4, size=sizes.size), sizes)
    said = np.where(rng.random(who.size) < 0.8, truth, rng.integers(4, size=who.size))
    return Annotations(indptr, who, said, items=Ids.range(sizes.size), annotators=Ids.range(M), classes=Ids.range(4))

shape, method, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
small = cs.aggregate(shaped(shape, 100_000), method)  # load and compile everything
small.labels, small.verdict
del small
a = shaped(shape, n)
gc.collect()
before = resident()
def peak_of(step):
    peak, done = 0, False
    def watch():
        nonlocal peak
        while not done:
            peak = max(peak, resident()); time.sleep(0.002)
    thread = threading.Thread(target=watch); thread.start()
    made = step()
    done = True; thread.join()
    gc.collect()
    return made, max(peak, resident())
def fit():
    made = cs.aggregate(a, method); made.labels
    return made
consensus, peak = peak_of(fit)
result = resident()
_, of_verdict = peak_of(lambda: consensus.verdict)
print(json.dumps([each / a.n_labels for each in (peak - before, peak - result, of_verdict - result)]))
"""

#: Shape of the crowd in words, its name, labels, and limits in bytes per label, if any.
SHAPES = (
    ("five labels an item", "five", 10_000_000, 25, 25),
    ("two labels an item", "two", 10_000_000, None, 25),
    ("half of all labels on one item", "half", 400_000, None, None),
)


def run() -> list[Figure]:
    made = []
    for (words, shape, n, limit, beyond), method in product(SHAPES, ("ds-em", "auto")):
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, shape, method, str(n)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peak, rest, verdict = json.loads(output)
        what = f"{method}, {words}, {n:.0e} labels, K = 4"
        made.append(Figure(f"peak memory beyond the annotations, {what}", peak, limit, unit="bytes/label"))
        made.append(Figure(f"the same beyond the result, {what}", rest, beyond, unit="bytes/label"))
        made.append(Figure(f"the verdict beyond the result, {what}", verdict, beyond, unit="bytes/label"))
    return made
