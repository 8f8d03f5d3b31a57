"""Peak memory of a whole aggregate run beyond the arrays of the annotations, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.figures import Figure

SCRIPT = """
import resource, threading, time
import consilience as cs
from benchmarks.crowds import crowd

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

cs.aggregate(crowd(100_000, 1000, 4), "ds-em").labels  # load and compile everything
a = crowd(10**7, 1000, 4)
import gc; gc.collect()
before, peak, done = resident(), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, resident()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
consensus = cs.aggregate(a, "ds-em"); consensus.labels
done = True; thread.join()
print((max(peak, resident()) - before) / a.n_labels)
"""


def run() -> list[Figure]:
    output = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    return [Figure("peak memory beyond the annotations, 1e7 labels, K = 4", float(output), 24, unit="bytes/label")]
