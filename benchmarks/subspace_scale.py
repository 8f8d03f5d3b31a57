"""Unions of ten subspaces with 10^4, 10^5 and 10^6 samples: the sketched method next to SSC-OMP and elastic nets.

Samples of 100 features lie near subspaces of dimension 5, with noise half as long as the signal.  The sketched method
runs with its defaults.  Of its peers SSC-OMP is told the dimension (5 atoms) and elastic nets have τ = 0.9 and their
authors' γ = 50; both in our compiled implementation and in the authors' own in Python: github
ChongYou/subspace-clustering, ``cluster/selfrepresentation.py``, which is run if ``CONSILIENCE_SELFREPRESENTATION``
names that file, with the interpreter ``CONSILIENCE_PEERS_PYTHON``.

A peer's time grows with N², so beyond 10^4 (the authors' always) it codes only the first samples, against all as a
dictionary; the time beyond that of a single sample is scaled to N, without graph and eigenvectors, in the peer's
favour.  ``python -m benchmarks.subspace_scale whole`` codes all 10^5 by our SSC-OMP and measures its accuracy.
Each run is a process of its own with the same threads; memory is the peak beyond the samples.  Ratios are of wall-clock
and of processor time, because the machine may be shared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, print_all
from benchmarks.pictures import blank, save
from consilience.datasets.subspaces import simulate_subspaces

FEATURES, SUBSPACES, DIMENSION, NOISE = 100, 10, 5, 0.5
SIZES = (10_000, 100_000, 1_000_000)
#: Samples coded by a peer that does not code all.
PART, AUTHORS_PART = 500, 50
OURS = ("sketched", "SSC-OMP", "elastic net")
AUTHORS = ("SSC-OMP, authors'", "elastic net, authors'")

#: Runs a method of ours, and prints the measurements as JSON.  Small runs come first, to load and compile.
_OURS = """
import json, resource, sys, threading, time
import numpy as np
from scipy.optimize import linear_sum_assignment
from benchmarks.subspace_codes.elastic_net import elastic_net
from benchmarks.subspace_codes.omp import omp
from consilience.datasets.subspaces import simulate_subspaces
from consilience.subspace.clustering import SketchedSubspaceClustering
from consilience.subspace.embedding import cluster_embedding, spectral_embedding
from consilience.subspace.graph import affinity_from_codes

method, N, part, D, K, d, noise = json.loads(sys.argv[1])

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def work(X, part):
    if method == "sketched":
        model = SketchedSubspaceClustering(K, random_state=0).fit(X)
        return model.labels_, None
    rows = None if part >= len(X) else np.arange(part)
    Z = omp(X, d, rows=rows) if method == "SSC-OMP" else elastic_net(X, tau=0.9, alpha=50.0, rows=rows)
    if rows is not None:
        return None, Z
    labels, _ = cluster_embedding(spectral_embedding(affinity_from_codes(Z), K), K)
    return labels, Z

def accuracy(labels, truth):
    table = np.zeros((K, K))
    np.add.at(table, (labels, truth), 1)
    return table[linear_sum_assignment(-table)].sum() / len(truth)

small = simulate_subspaces(2000, D, K, d, noise=noise).data
work(small, len(small)), work(small, 100)
if N > 50_000 and method == "sketched":  # compiles pynndescent, if it is installed
    SketchedSubspaceClustering(K, neighbors="approximate", random_state=0).fit(small)
drawn = simulate_subspaces(N, D, K, d, noise=noise, random_state=1)
before, peak, done = resident(), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, resident()); time.sleep(0.01)
thread = threading.Thread(target=watch); thread.start()
def clock(part):
    wall, processor = time.perf_counter(), time.process_time()
    done = work(drawn.data, part)
    return time.perf_counter() - wall, time.process_time() - processor, *done
once = clock(1)[:2] if method != "sketched" and part < N else (0.0, 0.0)  # what does not grow with the part
wall, processor, labels, Z = clock(part)
done = True; thread.join()
result = {"seconds": wall, "processor": processor, "once": once, "bytes": max(peak, resident()) - before}
if labels is not None:
    result["accuracy"] = accuracy(labels, drawn.truth)
if Z is not None:
    Z = abs(Z).tocoo()
    own = drawn.truth[Z.row] == drawn.truth[Z.col]
    result["own"] = float(Z.data[own].sum() / Z.data.sum())
print(json.dumps(result))
"""

#: Runs a method of the authors on its first samples, by limiting the iterable of its progress bar.
_AUTHORS = """
import importlib.util, itertools, json, sys, time
import numpy as np
method, file, part, d = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("selfrepresentation", sys.argv[2])
peer = importlib.util.module_from_spec(spec); spec.loader.exec_module(peer)
X = np.load(file)
X /= np.linalg.norm(X, axis=1, keepdims=True)
def work(X, part):
    peer.progressbar.progressbar = lambda all: itertools.islice(all, part)
    if method.startswith("SSC-OMP"):
        return peer.sparse_subspace_clustering_orthogonal_matching_pursuit(X, d)
    return peer.elastic_net_subspace_clustering(X, gamma=50.0, tau=0.9, algorithm="spams")
work(X[:500].copy(), 10)
def clock(part):
    wall, processor = time.perf_counter(), time.process_time()
    work(X, part)
    return time.perf_counter() - wall, time.process_time() - processor
once = clock(1)
wall, processor = clock(part)
print(json.dumps({"seconds": wall, "processor": processor, "once": once}))
"""


def measure(method: str, N: int, part: int, file: Path | None = None) -> dict[str, Any] | None:
    """Run one method in a process of its own; times are for all N samples.  Return None if it fails."""
    if method in AUTHORS:
        source = os.environ.get("CONSILIENCE_SELFREPRESENTATION", "")
        python = os.environ.get("CONSILIENCE_PEERS_PYTHON", sys.executable)
        command = [python, "-c", _AUTHORS, json.dumps([method, str(file), part, DIMENSION]), source]
        if not source:
            print(f"skipped {method}: CONSILIENCE_SELFREPRESENTATION does not name the authors' selfrepresentation.py")
            return None
    else:
        arguments = [method, N, part, FEATURES, SUBSPACES, DIMENSION, NOISE]
        command = [sys.executable, "-c", _OURS, json.dumps(arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"skipped {method}, N = {N:,}: {error}")
        return None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it failed without a message"])[-1]
        print(f"skipped {method}, N = {N:,}: {reason}")
        return None
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if part < N and method != "sketched":
        for name, once in zip(("seconds", "processor"), result["once"], strict=True):
            result[name] = once + max(result[name] - once, 0.0) * (N - 1) / (part - 1)
    _say(method, N, part, result)
    return result


def _say(method: str, N: int, part: int, result: dict[str, Any]) -> None:
    coded = "" if method == "sketched" or part >= N else f"; {part:,} coded, scaled by {N / part:,.0f}"
    right = f"accuracy {result['accuracy']:.4f}" if "accuracy" in result else "accuracy -     "
    own = f", {100 * result['own']:.1f} % of weight in the own subspace" if "own" in result else ""
    memory = f", {result['bytes'] / 1e9:.2f} GB" if "bytes" in result else ""
    print(
        f"N = {N:9,d}  {method:22s} {result['seconds']:10.1f} s, processor {result['processor']:10.1f} s, "
        f"{right}{memory}{own}{coded}",
        flush=True,
    )


def run(whole: bool = False) -> list[Figure]:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for N in SIZES:
        methods = OURS[:1] if SIZES.index(N) == 2 else OURS
        for method in methods:
            all_of_it = SIZES.index(N) == 0 or (whole and method == "SSC-OMP")
            result = measure(method, N, N if all_of_it else PART)
            if result is not None:
                found[method, N] = result
        if len(methods) > 1:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "samples.npy"
                drawn = simulate_subspaces(N, FEATURES, SUBSPACES, DIMENSION, noise=NOISE, random_state=1)
                np.save(file, drawn.data)
                for method in AUTHORS:
                    result = measure(method, N, AUTHORS_PART, file)
                    if result is not None:
                        found[method, N] = result
    _draw(found)
    return list(_figures(found))


def _figures(found: dict[tuple[str, int], dict[str, Any]]) -> list[Figure]:
    small, middle, large = SIZES
    figures = []
    for N in SIZES:
        if ("sketched", N) in found:
            ours = found["sketched", N]
            figures.append(Figure(f"N = {N:,}: accuracy of the sketched method", ours["accuracy"]))
            figures.append(Figure(f"N = {N:,}: time of the sketched method", ours["seconds"], unit="s"))
            figures.append(Figure(f"N = {N:,}: memory beyond the samples", ours["bytes"] / 1e9, unit="GB"))
    peers = (*OURS[1:], *AUTHORS)
    for method in peers:
        if (method, middle) in found and ("sketched", middle) in found:
            ours, peer = found["sketched", middle], found[method, middle]
            name = f"N = {middle:,}: times faster than {method}"
            figures.append(Figure(name, peer["seconds"] / ours["seconds"], 20, up=True, unit="×"))
            ratio = peer["processor"] / ours["processor"]
            figures.append(Figure(f"{name}, processor time", ratio, unit="×"))
    known = [(method, N) for method, N in found if method in peers and "accuracy" in found[method, N]]
    for method, N in known:
        gap = found["sketched", N]["accuracy"] - found[method, N]["accuracy"]
        figures.append(Figure(f"N = {N:,}: accuracy above {method}'s", gap, 0.0, up=True))
    for first, second in ((small, middle), (middle, large)):
        if ("sketched", first) in found and ("sketched", second) in found:
            ratio = found["sketched", second]["seconds"] / found["sketched", first]["seconds"]
            exponent = float(np.log(ratio) / np.log(second / first))
            figures.append(Figure(f"from N = {first:,} to {second:,}: time grows with the power", exponent))
            bound = second * np.log(second) / (first * np.log(first))
            figures.append(Figure("  the same: growth of time relative to N log N", ratio / bound, 1.0))
    return figures


def _draw(found: dict[tuple[str, int], dict[str, Any]]) -> None:
    picture = blank(6.4, 4.2)
    if picture is None or not found:
        return
    ax = picture.subplots()
    colours = dict(zip((*OURS, *AUTHORS), ("#1d4ed8", "#c2410c", "#15803d", "#c2410c", "#15803d"), strict=True))
    for method, colour in colours.items():
        sizes = [N for N in SIZES if (method, N) in found]
        if sizes:
            style = "D--" if method in AUTHORS else "o-"
            fill = "none" if method in AUTHORS else "full"
            seconds = [found[method, N]["seconds"] for N in sizes]
            ax.plot(sizes, seconds, style, color=colour, fillstyle=fill, label=method)
    sizes = [N for N in SIZES if ("sketched", N) in found]
    if sizes:
        first = sizes[0]
        growth = [found["sketched", first]["seconds"] * N * np.log(N) / (first * np.log(first)) for N in sizes]
        ax.plot(sizes, growth, ":", color="0.5", label="N log N")
    ax.set(xscale="log", yscale="log", xlabel="samples N", ylabel="seconds (peers beyond 10⁴: scaled from a part)")
    ax.set_title(f"{SUBSPACES} subspaces of dimension {DIMENSION} in {FEATURES} features, noise {NOISE}", fontsize=10)
    ax.grid(color="0.9", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    save(picture, "subspace_scale.png")


if __name__ == "__main__":
    print_all(run(whole="whole" in sys.argv[1:]))
