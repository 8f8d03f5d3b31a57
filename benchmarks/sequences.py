"""Figs 4.2-4.5 of Traganitis (2019): tokens in order, over the number of tokens and over that of annotators.

K = 4 classes; transitions and confusions drawn at random, ⌊M/2⌋ + 1 annotators better than random; sequences of 50
tokens, all labelled by all.  The thesis does not state the length of its sequences, and shows its figures without
numbers: only the statements of its text can be compared.

========================= ==========================================================================================
in the thesis             here
========================= ==========================================================================================
MV, MM                    ``majority``; ``tensor-admm``, tokens taken as independent
Alg. 4.2                  ``tensor-admm+hmm``
Alg. 4.2 + Alg. 4.1       ``tensor-admm+hmm+em``
MV + Alg. 4.1             ``majority+hmm+em``
oracle                    Viterbi with the true parameters
========================= ==========================================================================================

F-score: (4.24) with the erratum, over all tokens, and as the mean of those of the sequences (as in the thesis; a class
that a sequence lacks, in truth and in labels, is not counted).  Errors of the confusions (4.30) and of the transitions
are in the norm |X|₁ = largest column sum of |X|, for which |Γ|₁ = 1 as in (4.30).  Counting the true states has an
error too: a lower limit for every method.

Ten data sets for each figure (``BENCH_TRIALS``); the same annotators and transitions for every number of tokens.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.figures import Figure
from benchmarks.pictures import blank, save
from consilience.datasets import simulate_sequences
from consilience.datasets.sequences import SequenceSimulation
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.lagged import has_predecessor
from consilience.methods.base import registry
from consilience.metrics import f_score
from consilience.models.hidden_markov import HiddenMarkov
from consilience.structured.sequence_fit import fit_hmm

K, LENGTH = 4, 50
TRIALS = int(os.environ.get("BENCH_TRIALS", "10"))
SIZES, ANNOTATORS = (1000, 3000, 10_000, 30_000, 100_000), 10
CROWDS, TOKENS = (5, 10, 20, 50), 1000
ALONE, TWO_STEPS = ("majority", "tensor-admm", "ds-em"), "tensor-admm+hmm"
CHAINS = "tensor-admm+hmm+em", "ds-em+hmm+em", "majority+hmm+em", "auto"
ORACLE, COUNTED = "oracle (Viterbi)", "counting the true states"
#: The methods with a target relative to the oracle, and the tolerance.
PROMISED, NEAR_F, NEAR_T = ("tensor-admm+hmm+em", "ds-em+hmm+em", "auto"), 0.005, 0.02
NOTHING = float("nan")


class Score(NamedTuple):
    """Scores of a method; NaN if it has none."""

    f: float = NOTHING  #: F-score over all tokens
    f_by_sequence: float = NOTHING
    confusion: float = NOTHING  #: (4.30)
    transition: float = NOTHING  #: |T - T̂|₁
    entry: float = NOTHING  #: mean of |T - T̂| over the entries
    seconds: float = NOTHING


def column_norm(X: Floats) -> Floats:
    """Return |X|₁ of one matrix or of several."""
    return np.asarray(np.abs(X).sum(axis=-2).max(axis=-1))


def score(
    drawn: SequenceSimulation, labels: Codes, seconds: float, confusions: Any = None, transitions: Any = None
) -> Score:
    s, truth = drawn.annotations, drawn.truth
    T = np.full((K, K), np.nan) if transitions is None else drawn.transitions - transitions
    wrong = NOTHING if confusions is None else float(column_norm(drawn.model.confusions - confusions).mean())
    f, by_sequence = f_score(labels, truth), f_score(labels, truth, bounds=s.indptr)
    return Score(f, by_sequence, wrong, float(column_norm(T)), float(np.abs(T).mean()), seconds)


def one(trial: int, N: int, M: int) -> tuple[dict[str, Score], bool]:
    """Run every method on one draw; also return whether auto chose labels without context."""
    drawn = simulate_sequences(N // LENGTH, LENGTH, M, K, seed=trial)
    s, a = drawn.annotations, drawn.annotations.tokens
    rows, plain = {}, False

    def timed(work: Callable[[], Any]) -> tuple[Any, float]:
        begun = time.perf_counter()
        return work(), time.perf_counter() - begun

    for method in ALONE:
        seeded = {"random_state": 0} if "random_state" in registry.resolve(method)[0].parameters else {}
        fit, seconds = timed(lambda method=method, seeded=seeded: registry.fit(method, a, **seeded))  # type: ignore[misc]
        rows[method] = score(drawn, fit.choice.best, seconds, fit.model.confusions)
        if TWO_STEPS.startswith(method):
            chain, more = timed(lambda fit=fit: fit_hmm(s, fit))  # type: ignore[misc]
            model = chain.model.chains[0]
            rows[TWO_STEPS] = score(drawn, model.decode(s), seconds + more, fit.model.confusions, model.transitions)
    for method in CHAINS:
        run, seconds = timed(lambda method=method: cs.aggregate(s, method))  # type: ignore[misc]
        rows[method] = score(drawn, run.choice.best, seconds, run.model.confusions, run.transitions)
        plain = not run.chains.chains[0].context
    oracle = HiddenMarkov(drawn.start, drawn.transitions, drawn.model.confusions[:, None], a.class_ids, a.annotator_ids)
    rows[ORACLE] = score(drawn, oracle.decode(s), NOTHING)
    rows[COUNTED] = counted(drawn)
    return rows, plain


def counted(drawn: SequenceSimulation) -> Score:
    """Return the scores of parameters that are counted from the true states."""
    a, y = drawn.annotations.tokens, drawn.truth
    later = np.flatnonzero(has_predecessor(drawn.annotations.indptr))
    pairs, said = np.zeros((K, K)), np.zeros((a.n_annotators, K, K))
    np.add.at(pairs, (y[later], y[later - 1]), 1.0)
    np.add.at(said, (a.annotator, a.label, y[a.item_of_label()]), 1.0)
    T, wrong = (x / np.maximum(x.sum(axis=-2, keepdims=True), 1.0) for x in (pairs, said))
    # labels are not used: their scores are those of the truth itself
    return score(drawn, y, NOTHING, wrong, T)._replace(f=NOTHING, f_by_sequence=NOTHING)


Table = dict[str, Score]


@cache
def means(N: int, M: int) -> Table:
    trials = [one(trial, N, M) for trial in range(TRIALS)]
    table = {name: Score(*np.mean([rows[name] for rows, _ in trials], axis=0).tolist()) for name in trials[0][0]}
    spread = {name: float(np.std([rows[name].f for rows, _ in trials])) for name in table}
    print(f"\nN = {N}, M = {M}: mean of {TRIALS}; auto kept to the plain chain {sum(p for _, p in trials)} times")
    print(f"{'':26s} F-score   (sd)  by sequence  confusion (4.30)  |T - T̂|₁  |T - T̂| entry  seconds")
    for name, x in table.items():
        print(
            f"{name:26s} {x.f:7.4f} {spread[name]:6.3f} {x.f_by_sequence:12.4f} {x.confusion:17.4f} "
            f"{x.transition:9.4f} {x.entry:14.4f} {x.seconds:8.2f}",
            flush=True,
        )
    return table


def over_tokens() -> list[Figure]:
    tables = {N: means(N, ANNOTATORS) for N in SIZES}
    print("\nF-score below the oracle's:")
    for method in (TWO_STEPS, *CHAINS):
        print(f"{method:26s}", *(f"{tables[N][ORACLE].f - tables[N][method].f:9.4f}" for N in SIZES))
    draw("sequences.png", "tokens N", tables, log_x=True)
    N = SIZES[-1]
    last, first = tables[N], tables[SIZES[0]]
    figures = [Figure(f"sequences, N = {N}: F-score of the oracle", last[ORACLE].f)]
    figures += [
        Figure(f"sequences, N = {N}: F-score below the oracle's: {method}", last[ORACLE].f - last[method].f, NEAR_F)
        for method in PROMISED
    ]
    floor = last[COUNTED].transition
    figures += [
        Figure(f"sequences, N = {N}: |T - T̂|₁, {method} (counting {floor:.4f})", last[method].transition, NEAR_T)
        for method in PROMISED
    ]
    gain = "sequences, N = {}: F-score from the votes above that from moments (Alg. 4.1)"
    figures += [
        Figure(gain.format(size), table["majority+hmm+em"].f - table["tensor-admm+hmm+em"].f)
        for size, table in ((SIZES[0], first), (N, last))
    ]
    return figures


def over_annotators() -> list[Figure]:
    tables = {M: means(TOKENS, M) for M in CROWDS}
    draw("sequences_by_annotators.png", "annotators M", tables, log_x=True)
    few, many = tables[CROWDS[0]], tables[CROWDS[-1]]
    rises = min(many[method].f - few[method].f for method in (*ALONE, TWO_STEPS, *CHAINS))
    best = max(many[method].f for method in (*ALONE, TWO_STEPS, *CHAINS))
    return [
        Figure(f"sequences, M = {CROWDS[0]} to {CROWDS[-1]}: least rise of the F-score", rises, 0.0, up=True),
        Figure(
            f"sequences, M = {CROWDS[-1]}: F-score of Alg. 4.2 + 4.1 below the best", best - many[CHAINS[0]].f, 0.001
        ),
    ]


# ---- plots -------------------------------------------------------------------------------------------

#: Smaller losses are plotted as this: a logarithmic scale has no zero.
PERFECT = 1e-3
#: method: its name in the plot, colour and line
LOOK = {
    "majority": ("majority voting", "0.55", "o-"),
    "tensor-admm": ("tensor-admm", "#c2410c", "o-"),
    "ds-em": ("ds-em", "#0e7490", "s:"),
    TWO_STEPS: ("tensor-admm+hmm (Alg. 4.2)", "#15803d", "o-"),
    "tensor-admm+hmm+em": ("tensor-admm+hmm+em (Alg. 4.2 + 4.1)", "#6b21a8", "o-"),
    "majority+hmm+em": ("majority+hmm+em (MV + Alg. 4.1)", "#be185d", "s:"),
    "auto": ("auto", "#1d4ed8", "D--"),
    ORACLE: (ORACLE, "black", "-"),
    COUNTED: (COUNTED, "black", ":"),
}


def draw(name: str, xlabel: str, tables: Mapping[int, Table], *, log_x: bool) -> None:
    """Plot F-score, confusion error and transition error, a line for each method."""
    picture = blank(13.0, 4.6)
    if picture is None:
        return
    panels: tuple[tuple[str, Callable[[Score], float]], ...] = (
        ("F-score, logarithmic in 1 - F", lambda x: max(1.0 - x.f, PERFECT)),
        ("confusion error (4.30)", lambda x: x.confusion),
        ("transition error |T - T̂|₁", lambda x: x.transition),
    )
    x: Sequence[int] = list(tables)
    for ax, (title, value) in zip(picture.subplots(1, 3), panels, strict=True):
        for method, (label, colour, line) in LOOK.items():
            y = [value(table[method]) for table in tables.values()]
            if np.isfinite(y).all():
                ax.plot(x, y, line, color=colour, label=label, markersize=5, fillstyle="none")
        ax.set(title=title, xlabel=xlabel, yscale="log", xscale="log" if log_x else "linear")
        ax.set_xticks(x, [f"{value:,}".replace(",", " ") for value in x])
        ax.minorticks_off()
        ax.grid(color="0.9", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    first, *others = picture.axes
    # the difference from a perfect score, on a logarithmic scale: up is better
    scores = [0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999]
    low, high = first.get_ylim()
    shown = [f for f in scores if low <= 1.0 - f <= high]
    first.set_yticks([1.0 - f for f in shown], [f"{f:g}" for f in shown])
    first.invert_yaxis()
    for ax in others:
        low, high = ax.get_ylim()
        ticks = [t for t in (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0) if low <= t <= high]
        ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    lines = {line.get_label(): line for ax in picture.axes for line in ax.lines}
    picture.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save(picture, name)


def run() -> list[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        one(0, SIZES[0], ANNOTATORS)  # compile everything
        return over_tokens() + over_annotators()
