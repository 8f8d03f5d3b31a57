"""Sets of benchmarks, each with a target of make, such as ``make bench``, ``make paper`` and ``make scale``.

``python -m benchmarks pairs`` runs one.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.figures import Figure, print_all

#: Sets by name: speed and memory beside peers; the experiments of Ibrahim & Fu (2022); every method on classifiers,
#: adversaries, and crowds that break aggregators; every method on public crowds, what is left of them, probabilities,
#: peers, and labels to buy; sequences and networks; joint distributions of tables, and provable NMF; sketched subspace
#: clustering; labels larger than memory, on clusters, killed runs, and labels that keep coming.
SETS = {
    "bench": ("reading", "exports", "em_pass", "whole_fit", "acceleration", "memory", "pairs", "accuracy"),
    "paper": ("table6", "table7", "crowds_by_pairs", "convergence"),
    "methods": ("breaking", "ensembles", "adversaries"),
    "field": ("field", "thinned", "calibration", "peers", "plan"),
    "structured": ("chain_pass", "sequences", "conll", "networks"),
    "tables": ("joint_pmf", "pmf_tables", "movielens", "pmf_speed", "provable_nmf"),
    "subspaces": ("sketch_kinds", "sketched_clustering", "subspace_scale"),
    "scale": ("scan", "engines", "kills", "online"),
}


def main(names: list[str]) -> int:
    figures: list[Figure] = []
    try:
        for wanted in names or ["bench"]:
            for name in SETS.get(wanted, (wanted,)):
                print(f"== {name}", flush=True)
                figures += import_module(f"benchmarks.{name}").run()
    finally:  # what was measured is told, whatever breaks later
        print_all(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
