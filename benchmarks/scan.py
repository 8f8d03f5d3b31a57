"""Labels larger than memory: time of a scan relative to reading the Parquet columns once, and its peak memory.

Crowds of M = 1000, K = 4 and five labels per item, in Parquet files of at most 10^7 rows: grouped by item, or
scattered, one label of each item in every fifth of the rows.  Every scan runs in a process of its own that first scans
a small file, so that everything is loaded and compiled.

Ratios are of wall-clock times of alternating runs.  Sizes are compared by processor time, because wall-clock time
includes other work on a shared machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.figures import Figure

GIB = 1 << 30

SCRIPT = """
import gc, json, resource, sys, threading, time, warnings
import consilience as cs
from consilience.io.batches import label_files

warnings.simplefilter("ignore")
little, folder, spill, repeats = sys.argv[1], sys.argv[2], sys.argv[3] or None, int(sys.argv[4])

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def read():
    given = dict.fromkeys(("item", "annotator", "label"))
    files = label_files(folder, format=None, given=given, encoding="utf-8")
    for _ in files.batches(*given): pass

def scan():
    with cs.scan(folder, memory="2GiB", spill=spill) as labels: return labels.n_labels

def timed(work):
    begun, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun, time.process_time() - used

peak, done = 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, resident()); time.sleep(0.002)

cs.scan(little).close()
# in turns, so that disturbances of the machine affect both
reads, scans = [], []
for _ in range(repeats):
    reads.append(timed(read))
    thread = threading.Thread(target=watch); thread.start()
    scans.append(timed(scan))
    done = True; thread.join(); done = False
best = lambda times: [min(column) for column in zip(*times)]
print(json.dumps({"read": best(reads), "scan": best(scans), "peak": peak}))
"""

#: One EM pass over the labels of a store, all mapped at once: prints the peak of the process in bytes per label.
IN_MEMORY = """
import resource, sys
import numpy as np
from consilience.engine.passes import InMemory
from consilience.engine.store import Store

labels = InMemory(Store(sys.argv[1]).annotations())
M, K = labels.n_annotators, labels.n_classes
labels.sweep(np.full(K, 1 / K), np.broadcast_to(0.6 * np.eye(K) + 0.1, (M, K, K)).copy())
print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / labels.n_labels)
"""


def write(folder: Path, n: int, *, text: bool = False, scattered: bool = False) -> Path:
    """Write n labels in chunks, to need little memory."""
    folder.mkdir()
    rng, n_items, chunk = np.random.default_rng(0), n // 5, 1 << 20
    for low in range(0, n, 10**7):
        writer = None
        for a in range(low, min(low + 10**7, n), chunk):
            row = np.arange(a, min(a + chunk, low + 10**7, n))
            # 7,654,321 shares no factor with a power of ten: every fifth of the rows meets every item once
            item = (row % n_items * 7_654_321 + row // n_items) % n_items if scattered else row // 5
            columns: dict[str, Any] = {
                "item": item,
                "annotator": rng.integers(0, 1000, row.size),
                "label": rng.integers(0, 4, row.size),
            }
            if text:
                columns = {name: _named(name, values) for name, values in columns.items()}
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(folder / f"{low // 10**7:04}.parquet", table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    return folder


def _named(name: str, values: Any) -> pa.Array:
    return pc.binary_join_element_wise(f"{name}-", pa.array(values).cast(pa.string()), "")


def measured(little: Path, folder: Path, n: int, spill: Path | None = None) -> dict[str, Any]:
    repeats = 5 if n <= 10**6 else 3 if n <= 10**7 else 1
    command = [sys.executable, "-c", SCRIPT, str(little), str(folder), str(spill or ""), str(repeats)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (read, read_used), (scan, scan_used) = found["read"], found["scan"]
    print(
        f"{folder.name}: read {read / n * 1e9:.1f} ns a label ({read_used / n * 1e9:.1f} of processor time), "
        f"scan {scan / n * 1e9:.1f} ({scan_used / n * 1e9:.1f}), peak {found['peak'] / GIB:.2f} GiB",
        flush=True,
    )
    return {**found, "ns": scan / n * 1e9, "ratio": scan / read, "used": scan_used / n * 1e9}


def run(largest: int = 10**8) -> list[Figure]:
    sizes = [n for n in (10**6, 10**7, 10**8) if n <= largest]
    figures, costs, used = [], [], []
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        little = write(root / "little", 20_000, scattered=True)
        for n in sizes:
            folder, spill = write(root / f"{n:.0e} together", n), None
            if n == largest:
                spill = root / "kept"
                figures.append(Figure(f"Parquet of {n:.0e} labels", _size(folder) / 1e9, 1.0, unit="GB"))
            found = measured(little, folder, n)
            costs.append(found["ns"])
            used.append(found["used"])
            if n == largest:
                figures += [
                    Figure(f"reading {n:.0e} labels of number ids", found["read"][0] / n * 1e9, unit="ns/label"),
                    Figure("the same in processor time", found["read"][1] / n * 1e9, 20, unit="ns/label"),
                    Figure(f"scan of {n:.0e} together by item / reading", found["ratio"], 2.5, unit="x"),
                    Figure(f"scan of {n:.0e} together by item: peak", found["peak"] / GIB, 2, unit="GiB"),
                ]
                _run("import sys, consilience as cs; cs.scan(sys.argv[1], spill=sys.argv[2])", folder, spill)
                in_memory = float(_run(IN_MEMORY, spill))
                figures.append(Figure(f"process with {n:.0e} labels in memory", in_memory, 7, unit="bytes/label"))
            shutil.rmtree(folder)
        flat = max(costs) / min(costs)
        figures.append(Figure(f"cost per label, largest / smallest, {sizes[0]:.0e} to {largest:.0e}", flat, unit="x"))
        figures.append(Figure("the same in processor time", max(used) / min(used), 1.25, unit="x"))
        for n, text in sorted({(min(largest, 10**7), True), (min(largest, 10**7), False), (largest, False)}):
            kind = "text" if text else "number"
            folder = write(root / f"{n:.0e} scattered, {kind} ids", n, text=text, scattered=True)
            found = measured(little, folder, n)
            figures += [
                Figure(f"scan of {folder.name}", found["ns"], unit="ns/label"),
                Figure("the same in processor time", found["used"], unit="ns/label"),
                Figure(f"scan of {folder.name}: peak", found["peak"] / GIB, 2, unit="GiB"),
            ]
            shutil.rmtree(folder)
    return figures


def _run(script: str, *arguments: Path | None) -> str:
    command = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    from benchmarks.figures import print_all

    print_all(run(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8))
