"""Twenty runs killed with SIGKILL while they read, compute and write; twenty Dask workers killed in the middle of runs.

A killed run is restarted with the same command.  Its output must be byte for byte that of an uninterrupted run, except
for the seconds in the summary.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.engines import write_crowd
from benchmarks.figures import Figure

TIMES = 20

WORKERS = """
import json, os, random, signal, sys, warnings
import distributed
import consilience as cs
from consilience.methods.base import registry
from consilience.engine.dask import Cluster, OnCluster
from consilience.engine.passes import OnDisk

def main():
    warnings.simplefilter("ignore")
    store, times, rng = cs.scan(sys.argv[1]).store, int(sys.argv[2]), random.Random(0)
    options = {"tol": 0.0, "max_iter": 60}
    here = registry.fit("ds-em", OnDisk(store), **options)
    finished, worst = 0, 0.0
    options_of_cluster = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    for _ in range(times):
        with distributed.LocalCluster(**options_of_cluster) as cluster, distributed.Client(cluster) as client:
            victim, at = rng.choice(sorted(client.run(os.getpid).values())), rng.randrange(1, 60)
            def kill(state):
                if state.iteration == at: os.kill(victim, signal.SIGKILL)
            with OnCluster(OnDisk(store), Cluster(client)) as passes:
                there = registry.fit("ds-em", passes, callback=kill, **options)
        finished += 1
        worst = max(worst, abs(there.log_likelihood / here.log_likelihood - 1.0))
    print(json.dumps({"finished": finished, "worst": worst}))

if __name__ == "__main__":
    main()
"""


def contents(folder: Path) -> dict[str, Any]:
    files: dict[str, Any] = {file.name: file.read_bytes() for file in folder.iterdir()}
    summary = json.loads(files.pop("summary.json"))
    files.pop("report.html", None)  # contains seconds and date
    files.pop("checksums.json", None)  # that of the summary, which contains seconds
    return {**files, "summary": {name: value for name, value in summary.items() if name != "seconds"}}


def run(times: int = TIMES) -> list[Figure]:
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        folder = write_crowd(root / "labels", 10**6, 200)
        command = [
            sys.executable,
            "-m",
            "consilience",
            "aggregate",
            str(folder),
            "--method",
            "ds-em",
            "--engine",
            "stream",
        ]
        command += [
            "--max-iter",
            "60",
            "--tol",
            "0",
            "--json",
            "--checkpoint",
            str(root / "kept"),
            "--out",
            str(root / "run"),
        ]

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        start().wait()
        shutil.rmtree(root / "kept")
        begun = time.monotonic()
        start().wait()
        seconds, expected = time.monotonic() - begun, contents(root / "run")
        same = killed = 0
        for _ in range(times):
            shutil.rmtree(root / "kept", ignore_errors=True)
            shutil.rmtree(root / "run", ignore_errors=True)
            process = start()
            # the interpreter starts in the first second
            time.sleep(rng.uniform(min(1.0, seconds / 2), seconds))
            os.kill(process.pid, signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            start().wait()
            same += contents(root / "run") == expected
        print(f"a run takes {seconds:.1f} s; {killed} of {times} were killed before they ended", flush=True)
        figures = [Figure(f"of {times} runs killed at random, ended with the same bytes", same, times, up=True)]
        file = root / "workers.py"
        file.write_text(WORKERS)
        output = subprocess.run(
            [sys.executable, str(file), str(folder), str(times)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        ).stdout
        found = json.loads(output.splitlines()[-1])
        figures += [
            Figure(f"of {times} runs with a Dask worker killed, finished", found["finished"], times, up=True),
            Figure("  log-likelihood: largest relative difference from one process", found["worst"], 1e-12),
        ]
    return figures


if __name__ == "__main__":
    from benchmarks.figures import print_all

    print_all(run(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES))
