"""Codes of samples by public Python implementations of SSC-OMP and elastic nets, each in a process of its own.

* SSC-OMP of cr-sparse, on PyPI.  Version 0.4.0 needs the JAX of 2023: ``pip install cr-sparse 'jax==0.4.20'
  'jaxlib==0.4.20' 'numpy<2' 'scipy<1.12' 'pandas<2.3' 'chex<0.1.86'`` in an environment of its own, whose interpreter
  is ``CONSILIENCE_PEERS_PYTHON``.
* SSC-OMP and elastic nets of the authors, github ChongYou/subspace-clustering, which is not on PyPI: run if
  ``CONSILIENCE_SELFREPRESENTATION`` names its ``cluster/selfrepresentation.py``, with the same interpreter, which needs
  scikit-learn, progressbar2 and spams-bin.  Their elastic nets keep the 50 largest weights of a sample.

No other package was found on PyPI by the names of these methods.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["ATOMS", "GAMMA", "PUBLIC", "TAU", "Codes", "coded"]

#: The thesis' settings of Yale B, Section 2.5.2
ATOMS, TAU, GAMMA = 5, 0.7, 200.0
PUBLIC = ("OMP by cr-sparse", "OMP by its authors", "elastic net by its authors")

#: Writes codes and prints times as JSON.  JAX compiles for every shape, so the first run there is not counted.
_SCRIPT = """
import json, sys, time
import numpy as np
from scipy import sparse
method, samples, out, source, atoms, tau, gamma = json.loads(sys.argv[1])
X = np.load(samples)
X /= np.linalg.norm(X, axis=1, keepdims=True)
N = len(X)
if method == "OMP by cr-sparse":
    import jax
    jax.config.update("jax_enable_x64", True)
    from cr.sparse.cluster.ssc import build_representation_omp_jit
    def work(X):
        Z, index, _ = build_representation_omp_jit(X.T, atoms)
        rows = np.broadcast_to(np.arange(len(X)), Z.shape)
        return sparse.csr_matrix((np.asarray(Z).ravel(), (rows.ravel(), np.asarray(index).ravel())), shape=(N, N))
    work(X)
else:
    import importlib.util
    spec = importlib.util.spec_from_file_location("selfrepresentation", source)
    peer = importlib.util.module_from_spec(spec); spec.loader.exec_module(peer)
    peer.progressbar.progressbar = lambda all: all
    def work(X):
        if method.startswith("OMP"):
            return peer.sparse_subspace_clustering_orthogonal_matching_pursuit(X, atoms)
        return peer.elastic_net_subspace_clustering(X, gamma=gamma, tau=tau, algorithm="spams")
    work(X[:200].copy())
wall, processor = time.perf_counter(), time.process_time()
Z = work(X)
print(json.dumps([time.perf_counter() - wall, time.process_time() - processor]))
sparse.save_npz(out, Z)
"""


class Codes(NamedTuple):
    """Codes of a public implementation, and its time without graph and eigenvectors."""

    Z: Any
    seconds: float
    processor: float


def coded(method: str, X: Floats) -> Codes | None:
    """Run one of :data:`PUBLIC` with the thesis' settings; return None, after printing the reason, if it cannot run."""
    from scipy.sparse import csr_array, load_npz

    python = os.environ.get("CONSILIENCE_PEERS_PYTHON", "")
    source = os.environ.get("CONSILIENCE_SELFREPRESENTATION", "")
    if not (source if method.endswith("authors") else python):
        print(f"skipped {method}: no variable of the environment names it", flush=True)
        return None
    with tempfile.TemporaryDirectory() as folder:
        samples, out = Path(folder, "samples.npy"), Path(folder, "codes.npz")
        np.save(samples, X)
        settings = [method, str(samples), str(out), source, ATOMS, TAU, GAMMA]
        command = [python or sys.executable, "-c", _SCRIPT, json.dumps(settings)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"skipped {method}: {error}", flush=True)
            return None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it failed without a message"])[-1]
            print(f"skipped {method}: {reason}", flush=True)
            return None
        seconds, processor = json.loads(done.stdout.strip().splitlines()[-1])
        return Codes(csr_array(load_npz(out)), seconds, processor)
