"""One EM iteration on 10^6 rows of 20 variables, next to StepMix and pomegranate in the same run.

Peers run in processes of their own, with the interpreter ``CONSILIENCE_PEERS_PYTHON`` (by default this one), and are
skipped with a message if they cannot be imported.  The time of one iteration is the difference between longer and
shorter runs, without reading and starting.  A whole fit with given F is measured too: coding the table, pairs, CNMF-SPA
and EM to the default tolerance.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, best_of
from consilience.kernels.cpd import TablePass
from consilience.pmf.joint_pmf import JointPMF

ROWS, VARIABLES, CATEGORIES, COMPONENTS = 1_000_000, 20, 4, 5
AT_LEAST = 50.0
#: "In seconds".
WHOLE = 10.0

#: Times iterations of a peer, and prints the seconds of one as JSON.
_STEPMIX = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from stepmix.stepmix import StepMix
X = np.load(sys.argv[1]).astype(float)
def run(n, X=X):
    model = StepMix(n_components=int(sys.argv[2]), measurement="categorical", n_init=1, max_iter=n, abs_tol=0.0,
                    rel_tol=0.0, random_state=0, progress_bar=0, verbose=0)
    begun = time.perf_counter(); model.fit(X); return time.perf_counter() - begun
run(1, X[:1000])
print(json.dumps(run(2) - run(1)))
"""
_POMEGRANATE = """
import json, sys, time, warnings
import numpy as np, torch
warnings.simplefilter("ignore")
from pomegranate.distributions import Categorical
from pomegranate.gmm import GeneralMixtureModel
X = torch.tensor(np.load(sys.argv[1]).astype("int64"))
F, N, I = int(sys.argv[2]), X.shape[1], int(X.max()) + 1
def run(n):
    torch.manual_seed(0)
    parts = [Categorical(probs=torch.distributions.Dirichlet(torch.ones(I)).sample((N,))) for _ in range(F)]
    model = GeneralMixtureModel(parts, max_iter=n, tol=-1e30)
    begun = time.perf_counter(); model.fit(X); return time.perf_counter() - begun
print(json.dumps((run(4) - run(2)) / 2))
"""
PEERS = {"StepMix": _STEPMIX, "pomegranate": _POMEGRANATE}


def run() -> list[Figure]:
    rng = np.random.default_rng(0)
    component = rng.integers(COMPONENTS, size=ROWS)
    factors = rng.dirichlet(np.ones(CATEGORIES), (VARIABLES, COMPONENTS)).cumsum(axis=2)
    codes = np.empty((ROWS, VARIABLES), np.int8)
    for n in range(VARIABLES):
        codes[:, n] = np.minimum((rng.random(ROWS)[:, None] > factors[n, component]).sum(axis=1), CATEGORIES - 1)
    ours = _ours(codes, rng)
    figures = [Figure("PMF EM iteration, 10^6 rows × 20 variables, F = 5", ours, unit="s")]
    print(figures[0], flush=True)
    begun = time.perf_counter()
    model = JointPMF(COMPONENTS).fit(codes)
    whole = time.perf_counter() - begun
    figures.append(Figure(f"PMF whole fit of the same, {model.n_iter_} passes", whole, WHOLE, unit="s"))
    print(figures[-1], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "codes.npy"
        np.save(file, codes)
        seconds = {name: _peer(name, source, file) for name, source in PEERS.items()}
    met = {name: value for name, value in seconds.items() if value is not None}
    for name, value in met.items():
        figures.append(Figure(f"PMF EM iteration: {name}", value, unit="s"))
        print(figures[-1], flush=True)
    if met:
        fastest = min(met, key=lambda name: met[name])
        figures.append(
            Figure(f"PMF EM iteration: times faster than {fastest}", met[fastest] / ours, AT_LEAST, up=True, unit="×")
        )
    return figures


def _ours(codes: np.ndarray, rng: np.random.Generator) -> float:
    sweep = TablePass(codes, [CATEGORIES] * VARIABLES)
    weights = np.full(COMPONENTS, 1.0 / COMPONENTS)
    stacked = np.concatenate([rng.dirichlet(np.ones(CATEGORIES), COMPONENTS).T for _ in range(VARIABLES)])
    sweep(weights, stacked)  # compiles
    return best_of(7, lambda: sweep(weights, stacked))


def _peer(name: str, source: str, file: Path) -> float | None:
    """Return the seconds of one iteration, or None after printing the reason."""
    python = os.environ.get("CONSILIENCE_PEERS_PYTHON", sys.executable)
    try:
        done = subprocess.run(
            [python, "-c", source, str(file), str(COMPONENTS)], capture_output=True, text=True, timeout=900, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"skipped {name}: {error}")
        return None
    if done.returncode:
        print(f"skipped {name}: {(done.stderr.strip().splitlines() or ['it failed without a message'])[-1]}")
        return None
    return float(json.loads(done.stdout.strip().splitlines()[-1]))
