"""Reading 10^7 rows of string ids into Annotations, next to pandas reading the same file into a frame."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.figures import Figure

OURS = """
import resource, sys, time, warnings
import consilience as cs
warnings.simplefilter("ignore")
cs.read(sys.argv[2])
begun = time.perf_counter(); a = cs.read(sys.argv[1]); print(time.perf_counter() - begun)
"""
PANDAS = """
import sys, time
import pandas
pandas.read_csv(sys.argv[2])
begun = time.perf_counter(); pandas.read_csv(sys.argv[1]); print(time.perf_counter() - begun)
"""
PANDAS_CODED = """
import sys, time
import pandas
begun = time.perf_counter(); frame = pandas.read_csv(sys.argv[1])
codes = [pandas.factorize(frame[name]) for name in frame]
print(time.perf_counter() - begun)
"""


def write(path: Path, n: int) -> None:
    """Write five shuffled rows for each of n / 5 items."""
    rng = np.random.default_rng(0)
    items = pa.array(rng.permutation(np.repeat(np.arange(n // 5), 5))).cast(pa.string())
    workers = pa.array(rng.integers(0, 1000, n)).cast(pa.string())
    table = pa.table(
        {
            "task": pc.binary_join_element_wise("item-", items, ""),
            "worker": pc.binary_join_element_wise("worker-", workers, ""),
            "label": pa.array(np.array(["cat", "dog", "bird", "fish"])[rng.integers(0, 4, n)]),
        }
    )
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="needed"))


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.csv", Path(folder) / "small.csv"
        write(large, 10**7)
        write(small, 10**5)

        def seconds(script: str) -> float:
            command = [sys.executable, "-c", script, str(large), str(small)]
            return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        # in turns, so that disturbances of the machine affect both
        times = [(seconds(OURS), seconds(PANDAS)) for _ in range(7)]
        ours, theirs = (min(column) for column in zip(*times, strict=True))
        coded = seconds(PANDAS_CODED)
    return [
        Figure("pandas.read_csv and factorize / our time", coded / ours, unit="x"),
        Figure("reading 1e7 rows of string ids: seconds", ours, unit="s"),
        Figure("reading 1e7 rows of string ids: our time / pandas.read_csv", ours / theirs, 1.0, unit="x"),
    ]
