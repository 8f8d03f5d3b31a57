"""Run sets of benchmarks, each with a target of make, such as ``make bench``, ``make paper`` and ``make scale``.

``python -m benchmarks pairs`` runs a single one.  The steps of ``seeds`` run side by side, one on each core: their
figures are errors, and times only a note.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from typing import NamedTuple

from benchmarks.figures import Figure, print_all

#: Sets by name.
SETS = {
    # all tables and figures of the five documents, the slowest first, as two or more run side by side; BENCH_TRIALS and
    # CONSILIENCE_TRIALS make it shorter
    "seeds": (
        *("sketched_clustering", "sketch_kinds", "ensembles", "provable_nmf", "thesis_moments", "pmf_tables"),
        *("adversaries", "networks", "crowds_by_pairs", "sequences", "conll", "movielens", "classifier_settings"),
        *("table7", "joint_pmf", "convergence", "table6", "scattered"),
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


#: Sets whose steps run side by side.
SIDE_BY_SIDE = ("seeds",)


class Step(NamedTuple):
    """The outcome of one benchmark of a set."""

    name: str
    figures: list[Figure]
    failed: bool
    printed: str = ""  #: unless it was printed at once


def main(names: list[str]) -> int:
    done: dict[str, Step] = {}
    try:
        for wanted in names or ["bench"]:
            if wanted not in SETS:
                print(f"== {wanted}", flush=True)
                done[wanted] = Step(wanted, import_module(f"benchmarks.{wanted}").run(), False)
                continue
            for finished in side_by_side(SETS[wanted]) if wanted in SIDE_BY_SIDE else map(step, SETS[wanted]):
                print(finished.printed, end="", flush=True)
                done[finished.name] = finished
    finally:  # print what was measured even if a benchmark fails
        order = [name for wanted in names or ["bench"] for name in SETS.get(wanted, (wanted,)) if name in done]
        print_all([figure for name in order for figure in done[name].figures])
    failed = [name for name in order if done[name].failed]
    if failed:
        print(f"failed, with the traceback above: {', '.join(failed)}")
    return 1 if failed else 0


def step(name: str) -> Step:
    """Run one benchmark of a set; a failure is printed, because the others run for hours and should go on."""
    print(f"== {name}", flush=True)
    begun = time.perf_counter(), time.process_time()
    figures: list[Figure] = []
    failed = False
    try:
        figures = import_module(f"benchmarks.{name}").run()
    except Exception:
        traceback.print_exc()
        failed = True
    taken = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"== {name}: {taken[0]:.0f} s, {taken[1]:.0f} s of processor time", flush=True)
    return Step(name, figures, failed)


def quietly(name: str) -> Step:
    """Run one benchmark and keep what it prints."""
    text = StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        finished = step(name)
    return finished._replace(printed=text.getvalue())


def side_by_side(names: tuple[str, ...]) -> Iterator[Step]:
    """Yield benchmarks as they finish, one process for each core."""
    with ProcessPoolExecutor() as pool:
        of = {pool.submit(quietly, name): name for name in names}
        for future in as_completed(of):
            error = future.exception()  # the process was killed
            yield future.result() if error is None else Step(of[future], [], True, f"== {of[future]}: {error}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
