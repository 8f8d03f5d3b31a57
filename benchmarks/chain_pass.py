"""One Baum-Welch pass over chains of tokens next to one EM pass over the same labels, and its peak memory.

The environment variable BENCH_TOKENS sets the number of tokens.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache, partial

import numpy as np

from benchmarks.figures import Figure, best_of
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.chains import ChainSweep
from consilience.kernels.em import Sweep

K, M, LABELS = 9, 50, 5


def n_tokens() -> int:
    return int(os.environ.get("BENCH_TOKENS", 10**7))


@lru_cache(maxsize=1)
def tokens(N: int) -> tuple[Ints, Codes, Codes]:
    """Draw five labels per token, of which 70 % are right; truths come in runs."""
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(0, K, N, np.uint8), rng.integers(1, 6, N, np.uint8))[:N]
    annotator = (rng.integers(0, M, (N, 1), np.uint8) + 10 * np.arange(LABELS, dtype=np.uint8)) % np.uint8(M)
    label = np.where(
        rng.random((N, LABELS), np.float32) < 0.7, truth[:, None], rng.integers(0, K, (N, LABELS), np.uint8)
    )
    return np.arange(0, LABELS * N + 1, LABELS), annotator.ravel(), label.ravel()


def model() -> tuple[Floats, Floats, Floats]:
    """Return start, transitions and emissions near the truth."""
    return np.full(K, 1 / K), 0.6 * np.eye(K) + 0.4 / K, np.tile(0.7 * np.eye(K) + 0.3 / K, (M, 1, 1))


def bounds_of(kind: str, N: int) -> Ints:
    """Return the bounds of sequences of 1 to 39 tokens, or of a single one."""
    if kind == "one sequence":
        return np.array([0, N])
    ends = np.cumsum(np.random.default_rng(1).integers(1, 40, N // 15))
    return np.concatenate([[0], ends[ends < N], [N]])


def sweep_of(kind: str, N: int) -> ChainSweep:
    return ChainSweep(bounds_of(kind, N), *tokens(N), None, M, K, K)


SCRIPT = """
import resource, sys, threading, time
from benchmarks.chain_pass import model, sweep_of

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

kind, N = sys.argv[1], int(sys.argv[2])
sweep_of(kind, 20_000)(*model())  # load and compile everything
sweep = sweep_of(kind, N)
import gc; gc.collect()
before, peak, done = resident(), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, resident()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
sweep(*model())
done = True; thread.join()
print((max(peak, resident()) - before) / (8 * N))
"""


def peak_floats_per_token(kind: str, N: int) -> float:
    command = [sys.executable, "-c", SCRIPT, kind, str(N)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run() -> list[Figure]:
    N = n_tokens()
    start, transitions, emissions = model()
    items = Sweep(*tokens(N), None, M, K)
    kinds = ("sequences of 1 to 39", "one sequence")
    sweeps = {kind: sweep_of(kind, N) for kind in kinds}
    items(start, emissions)
    for sweep in sweeps.values():
        sweep(start, transitions, emissions)
    seconds = dict.fromkeys(("items", *kinds), np.inf)
    for _ in range(5):  # in turn, so that disturbances of the machine affect all
        seconds["items"] = min(seconds["items"], best_of(1, partial(items, start, emissions)))
        for kind, sweep in sweeps.items():
            seconds[kind] = min(seconds[kind], best_of(1, partial(sweep, start, transitions, emissions)))
    shape = f"{N:.0e} tokens, K = {K}, M = {M}"
    figures = [Figure(f"EM pass over items, {shape}", seconds["items"] / N * 1e9, unit="ns/token")]
    # One sequence runs on one core, items on all.
    for kind, most in zip(kinds, (4.0, None), strict=True):
        figures += [
            Figure(f"Baum-Welch pass, {kind}, {shape}", seconds[kind] / N * 1e9, unit="ns/token"),
            Figure(f"Baum-Welch pass / EM pass, {kind}, {shape}", seconds[kind] / seconds["items"], most, unit="x"),
        ]
    del sweeps, sweep
    figures += [
        Figure(f"peak memory of a pass, {kind}, {shape}", peak_floats_per_token(kind, N), 3 * K, unit="floats/token")
        for kind in kinds
    ]
    print(*figures, sep="\n", flush=True)
    return figures
