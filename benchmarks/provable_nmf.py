"""Provable NMF: Figures 1 to 4 of Li & Liang (2017), topics of 20 newsgroups and components of Olivetti faces.

The paper prints curves, no numbers, and its topic matrix (100 topics of NIPS papers) is not public; ours are drawn, see
:mod:`consilience.datasets.topics`.  What it says of each figure stands beside what is measured here:

* Figure 1, from A* (I ± 0.05): AND converges linearly on DIR, CTM and NEG; HALS more slowly and not on NEG; ANLS very
  slowly; MU and LDA not at all.  scikit-learn's coordinate descent, with the same start and from NNDSVD, is not there.
* Figure 2: a threshold that is held stops the descent; noise leaves an error that depends on its level.
* Figure 3: starts of twice the error in the span, and errors out of it as large as the features, lead there as well.
* Figure 4: Dirichlet weights up to α = 20 (of 100 topics) converge, α = 80 ends at a small error.

Errors are total squared correlation errors (100 features, so at most 100).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from benchmarks.figures import Figure, best_of
from benchmarks.pictures import blank, save
from consilience.datasets import path
from consilience.datasets.topics import TopicSimulation, perturbed, simulate_topics
from consilience.factor.descent import and_nmf, start
from consilience.factor.peers import anls, hals, lda_topics, sklearn_nmf
from consilience.kernels._arrays import Floats
from consilience.metrics import correlation_error

WORDS = 500
#: Seconds that every competitor gets
BUDGET = 10.0
PAPER: dict[str, Any] = {"alpha": 0.1, "decay": 1.1, "inner_steps": 50}

Curve = list[tuple[float, float]]


class Clock:
    """Errors against the time of the method alone; stops it when the budget is spent."""

    def __init__(self, truth: Floats, A0: Floats, budget: float = BUDGET) -> None:
        self.truth, self.budget = truth, budget
        self.curve: Curve = [(0.0, correlation_error(A0, truth))]
        self.spent, self.since = 0.0, time.perf_counter()

    def __call__(self, _: int, A: Floats) -> bool:
        """Note the error; the time that this takes does not count."""
        self.spent += time.perf_counter() - self.since
        self.curve.append((self.spent, correlation_error(A, self.truth)))
        self.since = time.perf_counter()
        return self.spent > self.budget


def methods(drawn: TopicSimulation, A0: Floats) -> dict[str, Curve]:
    """The error against time of every method on one data set."""
    Y, nonnegative = drawn.data, bool((drawn.data >= 0).all())

    def timed(work: Callable[[Clock], Any]) -> Curve:
        clock = Clock(drawn.features, A0)
        work(clock)
        return clock.curve

    def in_rounds(solver: Literal["mu", "cd"], A: Floats, X: Floats | None) -> Callable[[Clock], None]:
        def work(clock: Clock) -> None:
            now = A, X
            while True:
                now = sklearn_nmf(Y, *now, solver=solver, max_iter=10)
                if clock(0, now[0]):
                    return

        return work

    curves = {
        "AND": timed(lambda clock: and_nmf(Y, A0, callback=clock)),
        "AND, paper's thresholds, 50 steps": timed(lambda clock: and_nmf(Y, A0, callback=clock, tol=0, **PAPER)),
        "AND, batches of 1000": timed(lambda clock: and_nmf(Y, A0, callback=clock, batch_size=1000)),
        "HALS": timed(lambda clock: hals(Y, A0, max_iter=10**6, tol=0, free_features=not nonnegative, callback=clock)),
        "ANLS": timed(lambda clock: anls(Y, A0, max_iter=10**6, tol=0, free_features=not nonnegative, callback=clock)),
    }
    if nonnegative:
        curves["MU"] = timed(in_rounds("mu", A0, None))
        curves["CD"] = timed(in_rounds("cd", A0, None))
        curves["CD from NNDSVD"] = timed(in_rounds("cd", *_nndsvd(Y, A0.shape[1])))
        curves["LDA"] = timed(lambda clock: lda_topics(1000 * Y, A0.shape[1], max_iter=10**6, callback=clock))
    return curves


def _nndsvd(Y: Floats, D: int) -> tuple[Floats, Floats]:
    from sklearn.decomposition._nmf import _initialize_nmf

    return _initialize_nmf(Y, D, init="nndsvda", random_state=0)  # type: ignore[no-any-return]


def descent(drawn: TopicSimulation, A0: Floats, **options: Any) -> Curve:
    """The error of AND against time."""
    clock = Clock(drawn.features, A0, np.inf)
    and_nmf(drawn.data, A0, callback=clock, **options)
    return clock.curve


def stage_cost(drawn: TopicSimulation, A0: Floats) -> float:
    """One stage of AND in units of a dense product of the data with D features, the best of several each."""
    Y, n = drawn.data, 5
    product = best_of(10, lambda: A0.T @ Y)
    stages = best_of(5, lambda: and_nmf(Y, A0, max_iter=n + 1, tol=0)) - best_of(
        5, lambda: and_nmf(Y, A0, max_iter=1, tol=0)
    )
    return stages / n / product


def figure_1() -> list[Figure]:
    figures, panels = [], {}
    for kind in ("DIR", "CTM", "NEG"):
        drawn = simulate_topics(kind, n_words=WORDS)
        A0 = perturbed(drawn.features)
        panels[kind] = curves = methods(drawn, A0)
        for name, curve in curves.items():
            target = 1e-8 if name == "AND" and kind != "CTM" else None
            last, lowest = curve[-1][1], min(error for _, error in curve)
            when = next((f"{t:.1f} s" for t, error in curve if error < 1e-6), "not")
            print(
                f"{kind:5s} {name:34s} {curve[0][1]:.2g} → {last:.2e} (lowest {lowest:.1e}) in {curve[-1][0]:5.1f} s, "
                f"{len(curve) - 1} stages; below 1e-6: {when}",
                flush=True,
            )
            figures.append(Figure(f"figure 1, {kind}: error of {name}", last, target))
        if kind == "DIR":
            ours = curves["AND"]
            figures.append(Figure("figure 1, DIR: AND, error falls by", ours[0][1] / ours[-1][1], 1e6, up=True))
            # the two products with the data are not all: D × n work (thresholds, Z Zᵀ) weighs less the larger W is
            for words in (WORDS, 2000):
                wide = simulate_topics("DIR", n_words=words)
                cost = stage_cost(wide, perturbed(wide.features))
                figures.append(Figure(f"a stage of AND, W = {words}, in dense products with the data", cost, 2.0))
    _draw("provable_nmf_1.png", panels)
    return figures


def figures_2_to_4() -> list[Figure]:
    data = {kind: simulate_topics(kind, n_words=WORDS) for kind in ("DIR", "CTM")}
    panels: dict[str, dict[str, Curve]] = {}
    for kind, drawn in data.items():
        A0 = perturbed(drawn.features)
        panels[f"thresholds, {kind}"] = {"falling": descent(drawn, A0)} | {
            f"held at {alpha:g}": descent(drawn, A0, alpha=alpha, decay=1.0, max_iter=40)
            for alpha in (0.1, 0.01, 0.001)
        }
    panels["noise"] = {}
    for level in (0.01, 0.05, 0.1):
        noisy = simulate_topics("NOISE", n_words=WORDS, noise=level)
        A0 = perturbed(noisy.features)
        panels["noise"][f"γ = {level:g}"] = descent(noisy, A0, max_iter=40)
        panels["noise"][f"γ = {level:g}, falling for ever"] = descent(noisy, A0, noise_multiple=0.0, max_iter=40)
    drawn = data["CTM"]
    # ±0.05 r_n in 500 words makes columns of length 0.65 r_n
    panels["start, in the span"] = {
        f"r_l = {r:g}": descent(drawn, perturbed(drawn.features, in_span=r)) for r in (0.5, 1.0, 2.0, 3.0)
    }
    panels["start, out of the span"] = {
        f"r_n = {r:g}": descent(drawn, perturbed(drawn.features, out_of_span=r)) for r in (0.1, 0.3, 1.0)
    }
    panels["start from the data"] = {how: descent(drawn, start(drawn.data, 100, how, 0)) for how in ("spa", "random")}
    panels["sparsity"] = {}
    for alpha in (1, 5, 20, 80):
        dense = simulate_topics("DIR", n_words=WORDS, concentration=alpha / 100)
        panels["sparsity"][f"α = {alpha}"] = descent(dense, perturbed(dense.features))
    figures = []
    for title, curves in panels.items():
        for name, curve in curves.items():
            lowest = min(error for _, error in curve)
            print(f"{title:24s} {name:28s} {curve[0][1]:.2g} → {curve[-1][1]:.2e} (lowest {lowest:.1e})", flush=True)
            figures.append(Figure(f"{title}: {name}", curve[-1][1]))
    _draw("provable_nmf_2_to_4.png", panels)
    return figures


def newsgroups() -> Any:
    """Words by documents, tf-idf, sparse; and the words."""
    import pandas as pd
    from scipy.sparse import csc_matrix
    from sklearn.feature_extraction.text import TfidfTransformer

    folder = path("newsgroups20_bow")
    table = pd.read_csv(folder / "counts.csv.gz")
    words = pd.read_csv(folder / "terms.csv.gz", keep_default_na=False)["word"].to_numpy(str)
    counts = csc_matrix((table["count"].astype(float), (table["term"], table["doc"])))
    keep = np.asarray(counts.sum(axis=0)).ravel() > 0
    counts = counts[:, keep]
    return counts, TfidfTransformer().fit_transform(counts.T).T.tocsc(), words


def topics() -> list[Figure]:
    """Ten topics of 20 newsgroups, the words with the largest entries (Table 1 of the paper)."""
    from sklearn.decomposition import NMF

    counts, Y, words = newsgroups()
    begun = time.perf_counter()
    ours = and_nmf(Y, start(Y, 10), max_iter=40, tol=0).features
    seconds = {"AND from SPA": time.perf_counter() - begun}
    begun = time.perf_counter()
    drawn = and_nmf(Y, start(Y, 10, "random", 0), max_iter=40, tol=0).features
    seconds["AND from random documents, as in the paper"] = time.perf_counter() - begun
    begun = time.perf_counter()
    peer = NMF(10, init="nndsvd", random_state=0).fit(Y.T).components_.T
    seconds["NMF (scikit-learn)"] = time.perf_counter() - begun
    begun = time.perf_counter()
    lda = lda_topics(counts, 10, max_iter=3)
    seconds["LDA (scikit-learn)"] = time.perf_counter() - begun
    for (name, took), A in zip(seconds.items(), (ours, drawn, peer, lda), strict=True):
        print(f"{name}, {took:.1f} s")
        for column in A.T:
            print("   ", *words[np.argsort(-column)[:10]])
    return [Figure(f"ten topics of 20 newsgroups: {name}", took, unit="s") for name, took in seconds.items()]


def faces() -> list[Figure]:
    """Six components of the Olivetti faces (Figure 5), as a picture."""
    from sklearn.decomposition import NMF

    with np.load(path("olivetti") / "data.npz") as file:
        Y = file["X"].T / 255.0
    components, figures = {}, []
    for how in ("spa", "random"):
        A0 = start(Y, 6, how, 0)
        components[f"AND from {how}"] = and_nmf(Y, A0, max_iter=40, tol=0).features
    components["NMF (scikit-learn)"] = NMF(6, init="nndsvda", max_iter=400, random_state=0).fit(Y.T).components_.T
    for name, A in components.items():
        rest = Y - A @ np.linalg.lstsq(A, Y)[0]
        figures.append(
            Figure(
                f"Olivetti, 6 components of {name}: share of ‖Y‖ outside",
                float(np.linalg.norm(rest) / np.linalg.norm(Y)),
            )
        )
    picture = blank(9.0, 1.7 * len(components))
    if picture is not None:
        axes = picture.subplots(len(components), 6, squeeze=False)
        for row, (name, A) in zip(axes, components.items(), strict=True):
            for ax, column in zip(row, A.T, strict=True):
                # the file has the pixels of a face column by column
                ax.imshow(column.reshape(64, 64).T, cmap="gray")
                ax.set(xticks=[], yticks=[])
            row[0].set_ylabel(name, fontsize=8)
        save(picture, "olivetti_components.png")
    return figures


def _draw(name: str, panels: dict[str, dict[str, Curve]]) -> None:
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    picture = blank(4.6 * columns, 3.6 * rows)
    if picture is None:
        return
    axes = picture.subplots(rows, columns, squeeze=False).ravel()
    for ax, (title, curves) in zip(axes, panels.items(), strict=False):
        for label, curve in curves.items():
            t, error = np.array(curve).T
            ax.plot(t, np.maximum(error, 1e-16), label=label, linewidth=1.2)
        ax.set(title=title, xlabel="seconds", yscale="log")
        ax.grid(color="0.9", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=7)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    picture.supylabel("total squared correlation error")
    save(picture, name)


def run() -> list[Figure]:
    return figure_1() + figures_2_to_4() + topics() + faces()
