"""The same passes in memory, streamed from disk and on two Dask workers; whole runs from Parquet within 2 GiB.

Crowds of ten labels per item and K = 4, grouped by item, in Parquet files of at most 10^7 rows.  Passes of the three
engines alternate in one process, so that disturbances affect all; the second of two consecutive passes is timed, and
the fastest of each engine counts.
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
import pyarrow.parquet as pq

from benchmarks.figures import Figure

GIB = 1 << 30
DEGREE, K = 10, 4

#: Prints the seconds of one EM pass on every engine, over the store in a folder.
PASSES = """
import json, sys, time
import numpy as np
from consilience.fitting.em import ConfusionStep
from consilience.data.annotations import Annotations
from consilience.engine.dask import OnCluster, connect
from consilience.engine.passes import InMemory, OnDisk
from consilience.engine.place import on_disk
from consilience.engine.scanned import Scanned
from consilience.engine.store import Store

def main():
    store, repeats = Store(sys.argv[1]), int(sys.argv[2])
    mapped = store.annotations()
    copied = Annotations(
        np.array(mapped.indptr), np.array(mapped.annotator), np.array(mapped.label),
        items=mapped.item_ids, annotators=mapped.annotator_ids, classes=mapped.class_ids,
    )
    with connect() as cluster, OnCluster(OnDisk(store), cluster) as dask:
        places = {"local": InMemory(copied), "stream": on_disk(Scanned(store, 2 << 30)), "dask": dask}
        at = [ConfusionStep(pseudo)(places["local"].votes) for pseudo in (0.1, 0.2)]
        found = {name: [] for name in (*places, "stream used")}
        for turn in range(repeats + 1):
            for name, passes in places.items():
                passes.sweep(*at[0])  # wake up threads before the timed pass
                begun, used = time.perf_counter(), time.process_time()
                passes.sweep(*at[1])
                if turn:
                    found[name].append(time.perf_counter() - begun)
                if turn and name == "stream":
                    found["stream used"].append(time.process_time() - used)
    print(json.dumps({**{name: min(times) for name, times in found.items()},
                      **{f"{name} median": float(np.median(times)) for name, times in found.items()}}))

if __name__ == "__main__":
    main()
"""

#: A whole run within 2 GiB: prints the seconds of its three parts and the peak of the process in bytes.
WHOLE = """
import json, resource, sys, time, warnings
from pathlib import Path
import consilience as cs

warnings.simplefilter("ignore")

def run(folder, out):
    times = [time.perf_counter()]
    labels = cs.scan(folder, memory="2GiB")
    times.append(time.perf_counter())
    consensus = cs.aggregate(labels, "ds-em", max_iter=20, tol=0.0)
    times.append(time.perf_counter())
    consensus.save(out, labels="parquet")
    times.append(time.perf_counter())
    return {name: b - a for name, a, b in zip(("scan", "fit", "save"), times, times[1:])}

little, folder, out = map(Path, sys.argv[1:])
run(little, out)  # load and compile everything
found = run(folder, out)
print(json.dumps({**found, "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""

#: Prints the seconds of reading the columns once, and of rob-symnmf from the files.
PAIRS = """
import json, sys, time, warnings
import consilience as cs
from consilience.io.batches import label_files

warnings.simplefilter("ignore")
little, folder, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])

def read():
    given = dict.fromkeys(("item", "annotator", "label"))
    for _ in label_files(folder, format=None, given=given, encoding="utf-8").batches(*given): pass

def timed(work):
    begun = time.perf_counter(); work(); return time.perf_counter() - begun

cs.aggregate(little, "rob-symnmf", memory="2GiB")
reads, fits, scans = [], [], []
for _ in range(repeats):
    reads.append(timed(read))
    scans.append(timed(lambda: cs.scan(folder, memory="2GiB").close()))
    fits.append(timed(lambda: cs.aggregate(folder, "rob-symnmf", memory="2GiB")))
print(json.dumps({"read": min(reads), "scan": min(scans), "fit": min(fits)}))
"""


def write_crowd(folder: Path, n: int, M: int) -> Path:
    """Write n labels of a crowd in which each annotator has their own accuracy."""
    folder.mkdir()
    rng, n_items, chunk = np.random.default_rng(0), n // DEGREE, 10**5
    accuracy = rng.uniform(0.5, 0.9, M)
    writer: Any = None
    for low in range(0, n_items, chunk):
        items = np.arange(low, min(low + chunk, n_items))
        truth = rng.integers(0, K, items.size)
        step = rng.integers(1, M // DEGREE + 1, items.size)  # ten different annotators each
        who = (rng.integers(0, M, items.size)[:, None] + step[:, None] * np.arange(DEGREE)) % M
        wrong = rng.random(who.shape) > accuracy[who]
        said = (truth[:, None] + wrong * rng.integers(1, K, who.shape)) % K
        columns = {"item": np.repeat(items, DEGREE), "annotator": who.ravel(), "label": said.ravel()}
        table = pa.table(columns)
        if low * DEGREE % 10**7 == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(folder / f"{low * DEGREE // 10**7:04}.parquet", table.schema)
        writer.write_table(table)
    writer.close()
    return folder


def child(script: str, *arguments: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:  # a file, so that workers can import it
        file = Path(place) / "child.py"
        file.write_text(script)
        command = [sys.executable, "-W", "ignore", str(file), *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(largest: int = 10**8) -> list[Figure]:
    sizes = [n for n in (10**5, 10**6, 10**7, 10**8) if n <= largest]
    figures: list[Figure] = []
    costs, used, wholes = {}, {}, {}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        little = write_crowd(root / "little", 10**5, 1000)
        for n in sizes:
            folder = write_crowd(root / f"{n:.0e}", n, 1000)
            _scan(folder, root / "store")
            repeats = max(10, min(30, 2 * 10**8 // n))
            found = child(PASSES, root / "store", repeats)
            local, stream, dask = (found[name] for name in ("local", "stream", "dask"))
            print(
                f"{n:.0e} labels, one pass: {local * 1e9 / n:.2f} ns a label in memory, {stream * 1e9 / n:.2f} streamed"
                f", {dask * 1e9 / n:.2f} on Dask; Dask's overhead {1e3 * (dask - local):.0f} ms "
                f"(medians {1e3 * (found['dask median'] - found['local median']):.0f})",
                flush=True,
            )
            costs[n], used[n] = stream / n, found["stream used"] / n
            if n == largest:
                figures.append(Figure(f"streamed pass / in memory, {n:.0e} labels", stream / local, 3, unit="x"))
                figures.append(Figure(f"Dask pass / in memory, {n:.0e} labels", dask / local, 1.3, unit="x"))
            if n == min(10**7, largest):
                overhead = 1e3 * (dask - local)
                figures.append(Figure(f"Dask's overhead of a pass, {n:.0e} labels", overhead, 50, unit="ms"))
            shutil.rmtree(root / "store")
            wholes[n] = child(WHOLE, little, folder, root / "run")
            shutil.rmtree(folder)
        name = f"streamed pass, cost of a label from 1e+06 to {largest:.0e}: off the mean by at most"
        figures.append(Figure(name, _uneven(costs, largest), 25, unit="%"))
        figures.append(Figure("the same in processor time", _uneven(used, largest), unit="%"))
        print_model(wholes)
        peak = wholes[largest]["peak"] / GIB
        figures.append(Figure(f"streamed ds-em of {largest:.0e} labels, Parquet to labels: peak", peak, 2, unit="GiB"))
        for M, target in ((50, 4.0), (1000, None)):
            folder = write_crowd(root / f"{largest:.0e} by {M}", largest, M)
            found = child(PAIRS, little, folder, 3 if largest <= 10**7 else 2)
            print(f"{M} annotators: " + ", ".join(f"{name} {value:.2f} s" for name, value in found.items()), flush=True)
            name = f"rob-symnmf of {largest:.0e} labels, M = {M} / reading its columns"
            figures.append(Figure(name, found["fit"] / found["read"], target, unit="x"))
            shutil.rmtree(folder)
    return figures


def _uneven(costs: dict[int, float], largest: int) -> float:
    """Return the maximal deviation of the cost per label from its geometric mean, in percent."""
    logs = np.log([cost for n, cost in costs.items() if n >= min(10**6, largest)])
    return 100 * float(np.expm1(np.abs(logs - logs.mean()).max()))


def print_model(wholes: dict[int, dict[str, float]]) -> None:
    """Print whole runs next to the cost model: constant costs per label and per item."""
    at = min(10**7, max(wholes))
    print("from Parquet to labels, 20 passes, in seconds (predicted by the cost per label at 1e+07)")
    for n, found in wholes.items():
        told = (f"{name} {found[name]:.2f} ({wholes[at][name] * n / at:.2f})" for name in ("scan", "fit", "save"))
        print(f"{n:.0e} labels: {', '.join(told)}; peak {found['peak'] / GIB:.2f} GiB", flush=True)


def _scan(folder: Path, spill: Path) -> None:
    script = "import sys, consilience as cs; cs.scan(sys.argv[1], spill=sys.argv[2])"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, str(folder), str(spill)], check=True)


if __name__ == "__main__":
    from benchmarks.figures import print_all

    print_all(run(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8))
