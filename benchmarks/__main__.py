"""Run sets of benchmarks, each with a target of make, such as ``make bench``, ``make paper`` and ``make scale``.

``python -m benchmarks pairs`` runs a single one.
"""

from __future__ import annotations

import sys
import time
import traceback
from importlib import import_module

from benchmarks.figures import Figure, print_all

#: Sets by name.
SETS = {
    # all tables and figures of the five documents; BENCH_TRIALS and CONSILIENCE_TRIALS make it shorter
    "seeds": (
        *("table6", "table7", "crowds_by_pairs", "convergence", "scattered", "ensembles", "classifier_settings"),
        *("joint_pmf", "pmf_tables", "movielens"),
        "provable_nmf",
        *("sketch_kinds", "sketched_clustering", "adversaries", "thesis_moments"),
        *("sequences", "conll", "networks"),
    ),
    # speed and memory next to peers
    "bench": ("reading", "exports", "em_pass", "whole_fit", "memory", "pairs", "accuracy"),
    # the experiments of Ibrahim & Fu (2022)
    "paper": ("table6", "table7", "crowds_by_pairs", "convergence"),
    # every method on classifiers, adversaries, misleading and public crowds; peers, label acquisition, advice
    "methods": ("breaking", "ensembles", "adversaries", "every_method", "peers", "plan", "advice", "estimates"),
    # pairwise comparisons next to crowd-kit
    "ranking": ("ranking",),
    # sequences and networks
    "structured": ("chain_pass", "sequences", "conll", "span_functions", "networks", "network_pass"),
    # joint distributions of tables, provable NMF
    "tables": ("joint_pmf", "pmf_tables", "movielens", "pmf_speed", "provable_nmf"),
    # sketched subspace clustering
    "subspaces": ("sketch_kinds", "sketched_clustering", "subspace_scale"),
    # directions of chapter 5 of the thesis: kernels, links, ensembles of clusterings, collusion, moments of order four
    "directions": ("directions", "moment_orders"),
    # figures of a population from panels of judges
    "judges": ("judges", "audit", "routing"),
    # labels larger than memory, Dask, killed runs, streams
    "scale": ("scan", "engines", "kills", "online"),
}


def main(names: list[str]) -> int:
    figures: list[Figure] = []
    failed: list[str] = []
    try:
        for wanted in names or ["bench"]:
            for name in SETS.get(wanted, (wanted,)):
                print(f"== {name}", flush=True)
                begun = time.perf_counter(), time.process_time()
                try:
                    figures += import_module(f"benchmarks.{name}").run()
                except Exception:  # the others of a set run for hours: they go on
                    if wanted not in SETS:
                        raise
                    traceback.print_exc()
                    failed.append(name)
                taken = time.perf_counter() - begun[0], time.process_time() - begun[1]
                print(f"== {name}: {taken[0]:.0f} s, {taken[1]:.0f} s of processor time", flush=True)
    finally:  # print what was measured even if a benchmark fails
        print_all(figures)
    if failed:
        print(f"failed, with the traceback above: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
