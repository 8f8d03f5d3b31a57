"""Sketched against batch subspace clustering: Figs 2.2, 2.3 and 2.5 to 2.7 of Traganitis (2019).

The thesis shows curves without numbers.  Its statements, for faces of 2,016 pixels (ours have 1,024):

* Fig. 2.2, accuracy and time against n: with n ≈ 0.03 N ≈ 70 the sketched methods reach the accuracy of batch SSC,
  later exceed OMP and ORGEN (elastic nets), and take markedly less time than all of them.
* Fig. 2.3, the same on COIL-100, which is not public here: 5,000 digits and a simulated union take its place.
* Fig. 2.5, against the number of features d kept, n = 70: Sketch-LSR and Sketch-SSC are above LSR, SSC, OMP and ORGEN.
  (Low-rank codes are left out, as there: "the algorithm failed for small values of d".)  Its values of d
  are in the plot only.  Every method gets the same mixed features, and every accuracy is the mean over three mixings.
* Fig. 2.6, against the share of entries observed, n = 150: comparable with batch LSR, far less time a node (of 50).
  The thesis' dictionary has zeros for missing entries; the estimator's is imputed by
  :mod:`consilience.subspace.completion`.
  DS-SSC has the thesis' λ = 100.  One seed; DS-SSC and DS-LRR take up to a minute for each share.
* Fig. 2.7, the same on 1,000 digits of 500 features: principal components here, the thesis' are of a scattering
  network.  Only the methods in closed form are run.

Settings of Yale B are the thesis' of Section 2.5.2 where it gives them: LSR λ = 10^6, SSC α = 30, OMP 5 atoms, ORGEN
τ = 0.7 and α = 200, k = 5 neighbours; nothing was tuned on the truth here.  Sketch-LRR has the λ of Sketch-LSR, because
the thesis' 0.15 is for an l2,1 fit; Sketch-SSC has the estimator's own λ, because the thesis' α = 50 is far worse here.
(With the λ of Sketch-LSR the other two give the same result: the penalty hardly matters.)  Elsewhere every method has
the λ that the sketched one chooses by itself.  Batch SSC is solved by an active set (:mod:`consilience.subspace.ensc`
with τ = 1), which is faster here than ADMM on 2,414 atoms.  Batch codes Z give the graph |Z| + |Z|ᵀ, as is usual; "+
neighbours" is the same codes with the graph of Alg. 2.3, which the thesis allows for batch methods too (Remark 2.5).

Public implementations of OMP and ORGEN are included if :mod:`benchmarks.subspace_peers` finds them.  The authors'
elastic nets take some minutes per fit.

At d = 50 the finding of Fig. 2.5 does not hold here.  If d is near n the dictionary, n × d, is nearly square; such a
random matrix has some very small singular values, which λ = 10^6 does not damp, and the least-squares codes are long
along them for every sample.  To show it there is one more curve, Sketch-LSR with the λ that the estimator chooses
without the truth, and the condition number of the dictionary is printed: that curve is above the thesis' batch methods
at every d.  The reason for the low accuracy of Sketch-SSC at d = 50 is unknown.  Batch LSR with the graph of nearest
codes, which the thesis does not include, is above all.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figures import Figure
from benchmarks.pictures import blank, save
from benchmarks.subspace_codes.elastic_net import elastic_net
from benchmarks.subspace_codes.omp import omp
from benchmarks.subspace_peers import ATOMS, GAMMA, PUBLIC, TAU, coded
from consilience.datasets import load
from consilience.datasets.subspaces import simulate_subspaces
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace.clustering import SketchedSubspaceClustering
from consilience.subspace.embedding import cluster_embedding, spectral_embedding
from consilience.subspace.graph import affinity_from_codes
from consilience.subspace.graph_clusters import cluster_codes
from consilience.subspace.lsr import default_lam, lsr
from consilience.subspace.missing import fill, lsr_missing
from consilience.subspace.sketches import make_sketch

SEEDS = range(3)
SKETCHES = (20, 45, 70, 150, 300)
REDUCED = (50, 100, 200, 400)
OBSERVED = (0.3, 0.5, 0.7, 0.9, 1.0)
#: Digits of Fig. 2.7; with gaps, batch LSR solves a system of equations for every sample.
DIGITS = 1000
#: λ of LSR on Yale B, Section 2.5.2, of DS-SSC there and of LSR on digits, Section 2.5.4
LAM, SPARSE_LAM, DIGITS_LAM = 1e6, 100.0, 1.2e4
#: Of Fig. 2.5: the sketched methods with options, the last for what the docstring says of d near n; the batch methods
REDUCED_SKETCHES: dict[str, dict[str, Any]] = {"Sketch-LSR": {}, "Sketch-SSC": {}, "Sketch-LSR, own λ": {"lam": None}}
REDUCED_BATCH = ("LSR", "LSR + neighbours", "SSC", "OMP", "elastic net")
#: The one of them that the thesis' pictures do not have
EXTRA = "LSR + neighbours"
COLOURS = ("#1d4ed8", "#c2410c", "#15803d", "#6b21a8", "#0e7490", "#a16207", "#be185d", "0.35")
MARKERS = "osD^v<>Px+1"


class Problem(NamedTuple):
    """Samples, their classes, the number of classes, and λ of LSR (None: chosen by the estimator)."""

    name: str
    X: Floats
    truth: Ints
    K: int
    lam: float | None


class Run(NamedTuple):
    """Result of one fit."""

    accuracy: float
    seconds: float  #: wall clock
    processor: float  #: processor seconds of all threads, robust on a shared machine


def _images(name: str) -> tuple[Floats, Ints]:
    """Return a public set of images, as rows of length one, and their classes."""
    parts: Any = load(name)
    data: Floats = np.asarray(parts["X"], np.float64)
    length = np.linalg.norm(data, axis=1, keepdims=True)
    return data / np.where(length > 0, length, 1.0), np.unique(parts["y"], return_inverse=True)[1].astype(np.int64)


def problems() -> list[Problem]:
    """Return the sets of Figs 2.2 and 2.3."""
    faces, digits = _images("yaleb"), _images("mnist5k")
    drawn = simulate_subspaces(3000, 100, 10, 5, noise=0.7, random_state=1)
    return [
        Problem("Extended Yale B", *faces, 38, LAM),
        Problem("mnist5k", *digits, 10, None),
        Problem("simulated union", drawn.data, drawn.truth, 10, None),
    ]


def accuracy(labels: Ints, truth: Ints) -> float:
    """Return the share of samples in the right cluster, under the best matching of clusters with classes."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1))
    np.add.at(table, (labels, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


def timed(work: Callable[[], Ints], truth: Ints) -> Run:
    wall, processor = time.perf_counter(), time.process_time()
    labels = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return Run(accuracy(labels, truth), wall, processor)


def mean(runs: Sequence[Run]) -> Run:
    return Run(*np.mean(runs, axis=0).tolist())


def sketched(problem: Problem, n: int, **options: Any) -> Run:
    """Run Alg. 2.1 with Alg. 2.3; return the mean over seeds."""
    lam = None if options.get("representation") == "ssc" else problem.lam
    options = {"lam": lam, "n_neighbors": 5, **options}

    def fit(seed: int) -> Ints:
        model = SketchedSubspaceClustering(problem.K, n_sketch=n, random_state=seed, **options)
        return np.asarray(model.fit(problem.X).labels_)

    return mean([timed(lambda seed=seed: fit(seed), problem.truth) for seed in SEEDS])  # type: ignore[misc]


def by_affinity(Z: Any, K: int) -> Ints:
    return cluster_embedding(spectral_embedding(affinity_from_codes(Z), K), K)[0]


def batch_methods(problem: Problem) -> dict[str, Callable[[], Ints]]:
    """Return the methods whose dictionary is all samples."""
    X, K = problem.X, problem.K
    lam = problem.lam or chosen_lam(problem)
    return {
        "LSR": lambda: by_affinity(lsr(X, None, lam), K),
        "LSR + neighbours": lambda: cluster_codes(lsr(X, None, lam), K, n_neighbors=5).labels,
        "SSC": lambda: by_affinity(elastic_net(X, default_lam(X, None, 30.0), 1.0), K),
        "OMP": lambda: by_affinity(omp(X, ATOMS), K),
        "elastic net": lambda: by_affinity(elastic_net(X, None, TAU, alpha=GAMMA), K),
    }


def batch(problem: Problem, names: Iterable[str]) -> dict[str, Run]:
    """Run some of them, each once."""
    methods, found = batch_methods(problem), {}
    for name in names:
        found[name] = timed(methods[name], problem.truth)
        say(problem.name, name, found[name])
    return found


def public(problem: Problem) -> dict[str, Run]:
    """Run available public implementations of SSC-OMP and elastic nets: their codes, our graph."""
    found = {}
    for name in PUBLIC:
        codes_ = coded(name, problem.X)
        if codes_ is not None:
            graph = timed(partial(by_affinity, codes_.Z, problem.K), problem.truth)
            found[name] = Run(graph.accuracy, graph.seconds + codes_.seconds, graph.processor + codes_.processor)
            say(problem.name, name, found[name])
    return found


def chosen_lam(problem: Problem) -> float:
    """Return the default λ of the sketched method; E[Bᵀ B] = Xᵀ X, so it suits all samples too."""
    model = SketchedSubspaceClustering(problem.K, random_state=0).fit(problem.X)
    return float(model.lam_)


def say(place: str, name: str, run: Run) -> None:
    print(
        f"{place:16s} {name:30s} accuracy {run.accuracy:.3f} in {run.seconds:8.2f} s, processor {run.processor:8.2f} s",
        flush=True,
    )


Curves = dict[str, list[Run]]


def against_n(problem: Problem) -> tuple[Curves, dict[str, Run]]:
    """Run Figs 2.2 and 2.3."""
    curves: Curves = {"Sketch-LSR": [], "Sketch-SSC": [], "Sketch-LRR": []}
    few = problem._replace(X=problem.X[:200], truth=problem.truth[:200], K=2)
    for name in curves:  # load and compile
        sketched(few, 5, representation=name[-3:].lower())
    for n in SKETCHES:
        for name, runs in curves.items():
            runs.append(sketched(problem, n, representation=name[-3:].lower()))
            say(problem.name, f"{name}, n = {n}", runs[-1])
    names = ["LSR", "LSR + neighbours", "OMP"]
    if problem.lam is None:
        return curves, batch(problem, names)
    return curves, batch(problem, [*names, "SSC", "elastic net"]) | public(problem)


def against_d(problem: Problem) -> Curves:
    """Run Fig. 2.5: features reduced to d by a sketch, n = 70."""
    N, D = problem.X.shape
    curves: Curves = {name: [] for name in (*REDUCED_SKETCHES, *REDUCED_BATCH)}
    for d in REDUCED:
        for name, options in REDUCED_SKETCHES.items():
            curves[name].append(sketched(problem, 70, representation=name[7:10].lower(), n_features=d, **options))
        # as in the estimator, whose second sketch has the next seed
        mixed = [make_sketch("rademacher", D, d, seed + 1).apply_right(problem.X) for seed in SEEDS]
        methods = [batch_methods(problem._replace(X=X)) for X in mixed]
        for name in REDUCED_BATCH:
            curves[name].append(mean([timed(each[name], problem.truth) for each in methods]))
        for name in (*REDUCED_SKETCHES, *REDUCED_BATCH):
            say(f"Yale B, d = {d}", name, curves[name][-1])
        others = [public(problem._replace(name=f"Yale B, d = {d}", X=X)) for X in mixed]
        for name in (name for name in PUBLIC if all(name in each for each in others)):
            curves.setdefault(name, []).append(mean([each[name] for each in others]))
        pairs = zip(SEEDS, mixed, strict=True)
        condition = np.mean([np.linalg.cond(make_sketch("rademacher", N, 70, seed).apply(X)) for seed, X in pairs])
        print(f"Yale B, d = {d}: condition of the dictionary {condition:.0f}", flush=True)
    return {name: runs for name, runs in curves.items() if len(runs) == len(REDUCED)}


def digits_500() -> Problem:
    """Return the set of Fig. 2.7: digits in 500 principal components, of length one."""
    from sklearn.decomposition import PCA

    X, truth = _images("mnist5k")
    X, truth = X[:DIGITS], truth[:DIGITS]
    parts = PCA(500, random_state=0).fit_transform(X)
    return Problem("mnist5k", parts / np.linalg.norm(parts, axis=1, keepdims=True), truth, 10, DIGITS_LAM)


def against_missing(problem: Problem, closed_form: bool = False) -> Curves:
    """Run Figs 2.6 and 2.7: entries missing at random, n = 150, Gaussian sketches, heat weights, k = 5."""
    N, K = len(problem.X), problem.K
    options: dict[str, Any] = {"n_neighbors": 5, "weights": "heat"}

    def estimator(X: Floats, **more: Any) -> Ints:
        model = SketchedSubspaceClustering(K, n_sketch=150, sketch="gaussian", random_state=0, **options, **more)
        return np.asarray(model.fit(X).labels_)

    def zeros(X: Floats) -> Ints:
        B = make_sketch("gaussian", N, 150, 0).apply(fill(X))
        return cluster_codes(lsr_missing(X, B, problem.lam or LAM), K, **options).labels

    def all_samples(X: Floats) -> Ints:
        return cluster_codes(lsr_missing(X, fill(X), problem.lam or LAM), K, **options).labels

    methods = {
        "DS-LSR": estimator,
        "DS-SSC": partial(estimator, representation="ssc", lam=SPARSE_LAM),
        "DS-LRR": partial(estimator, representation="lrr"),
        "DS-LSR, zeros in gaps": zeros,
        "LSR": all_samples,
    }
    if closed_form:
        methods = {name: work for name, work in methods.items() if "LSR" in name}
    curves: Curves = {name: [] for name in methods}
    for share in OBSERVED:
        rng = np.random.default_rng(0)
        X = np.where(rng.random(problem.X.shape) < share, problem.X, np.nan)
        for name, work in methods.items():
            curves[name].append(timed(lambda work=work, X=X: work(X), problem.truth))  # type: ignore[misc]
            say(f"observed {share:.0%}", name, curves[name][-1])
    return curves


def run() -> list[Figure]:
    figures: list[Figure] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        for problem in problems():
            curves, flat = against_n(problem)
            name = "sketched_" + problem.name.split()[-2 if problem.name.endswith("B") else 0].lower()
            draw(f"{name}_n.png", "size of the sketch n", SKETCHES, curves, flat, problem.name)
            figures += judged(problem, curves, flat)
        faces = problems()[0]
        reduced = against_d(faces)
        draw("sketched_yale_d.png", "features kept d", REDUCED, reduced, {}, "Extended Yale B, n = 70")
        missing = against_missing(faces)
        draw(
            "sketched_yale_missing.png", "share of entries observed", OBSERVED, missing, {}, "Extended Yale B, n = 150"
        )
        digits = against_missing(digits_500(), closed_form=True)
        draw("sketched_digits_missing.png", "share of entries observed", OBSERVED, digits, {}, "mnist5k, n = 150")
    figures += [
        Figure(f"Fig. 2.7, {share:.0%} observed: accuracy of {name}", digits[name][i].accuracy)
        for i, share in enumerate(OBSERVED)
        for name in digits
    ]
    figures += judged_reduced(reduced)
    half = OBSERVED.index(0.5)
    gap = missing["DS-LSR"][half].accuracy - missing["LSR"][half].accuracy
    figures.append(Figure("Yale B, half observed: DS-LSR above batch LSR (thesis: comparable)", gap))
    ratio = missing["LSR"][half].seconds / missing["DS-LSR"][half].seconds
    figures.append(Figure("Yale B, half observed: times less than batch LSR", ratio, unit="×"))
    return figures


def judged(problem: Problem, curves: Curves, flat: dict[str, Run]) -> Iterable[Figure]:
    """Compare Sketch-LSR at n = 70 with the batch methods."""
    at = SKETCHES.index(70)
    ours = curves["Sketch-LSR"][at]
    yield Figure(f"{problem.name}: accuracy of Sketch-LSR, n = 70", ours.accuracy)
    promised = problem.lam is not None
    for name, run in flat.items():
        title = f"{problem.name}: Sketch-LSR, n = 70, above batch {name}'s {run.accuracy:.3f}"
        yield Figure(title, ours.accuracy - run.accuracy, -0.02 if promised else None, up=True)
        title = f"{problem.name}: times less than batch {name}"
        yield Figure(title, run.seconds / ours.seconds, 10 if promised and name in ("LSR", "SSC") else None, up=True)
        yield Figure(f"{title}, processor time", run.processor / ours.processor)
    default = np.mean([accuracy(_by_default(problem, seed), problem.truth) for seed in SEEDS])
    yield Figure(f"{problem.name}: accuracy of the estimator with nothing given but K", float(default))
    if promised:
        for name in ("Sketch-SSC", "Sketch-LRR"):
            yield Figure(f"{problem.name}: accuracy of {name}, n = 70", curves[name][at].accuracy)


def judged_reduced(curves: Curves) -> Iterable[Figure]:
    """Compare the sketched methods at every d with the best of the thesis' batch methods, and with our graph of LSR."""
    for at, d in enumerate(REDUCED):
        found = {name: runs[at].accuracy for name, runs in curves.items()}
        best = max((name for name in REDUCED_BATCH if name != EXTRA), key=found.__getitem__)
        for name, options in REDUCED_SKETCHES.items():
            yield Figure(f"Yale B, d = {d}: accuracy of {name}", found[name])
            for other in (best, EXTRA):
                title = f"Yale B, d = {d}: {name} above batch {other}'s {found[other]:.3f}"
                yield Figure(title, found[name] - found[other], None if options else 0.0, up=True)


def _by_default(problem: Problem, seed: int) -> Ints:
    return np.asarray(SketchedSubspaceClustering(problem.K, random_state=seed).fit(problem.X).labels_)


def draw(file: str, xlabel: str, x: Sequence[float], curves: Curves, flat: dict[str, Run], title: str) -> None:
    """Plot accuracy and time in two panels; batch methods are dashed, without markers if they have no n."""
    picture = blank(10.0, 3.9)
    if picture is None:
        return
    panels = picture.subplots(1, 2)
    for ax, field, label in zip(panels, ("accuracy", "seconds"), ("accuracy", "seconds"), strict=True):
        # implementations by others have the colour of ours, dotted
        colours = dict(zip(curves, COLOURS, strict=False))
        colours |= dict(zip(flat, ("0.1", "0.45", *COLOURS[3:]), strict=False))
        for (name, runs), marker in zip(curves.items(), MARKERS, strict=False):
            values = [getattr(run, field) for run in runs]
            style = "-" if name.startswith(("Sketch", "DS")) else ":" if name in PUBLIC else "--"
            text = name if style == "-" else f"{name}, batch"
            colour = colours[name.split(" by ")[0]]
            ax.plot(x, values, style, marker=marker, fillstyle="none", color=colour, label=text)
        for name, run in flat.items():
            style, width = (":", 2.4) if name in PUBLIC else ("--", 1.2)
            colour = colours[name.split(" by ")[0]]
            height = getattr(run, field)
            ax.axhline(height, linestyle=style, linewidth=width, color=colour, label=f"{name}, batch")
        ax.set(xlabel=xlabel, ylabel=label, xticks=x)
        ax.set_xticklabels([f"{value:g}" for value in x])
        ax.grid(color="0.9", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylim(0.0, 1.02)
    panels[1].set_yscale("log")
    for axis in (panels[1].yaxis.set_major_formatter, panels[1].yaxis.set_minor_formatter):
        axis(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "125" else "")
    panels[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    picture.suptitle(title, fontsize=10)
    save(picture, file)
