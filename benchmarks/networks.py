"""Items on a graph: Table 4.3 of Traganitis (2019), F-scores next to those of the thesis, and the time of a pass.

Cora and CiteSeer: ten kinds of classifiers with scikit-learn's defaults, the nearest equivalents of MATLAB's toolbox,
each trained on 150 (100) nodes of its own, label all nodes; the graph is the citations.  Music genre: the labels of 44
people; the graph joins every song to the 3 nearest by standardised features.  Sentence polarity is not possible: the
public set has no features; Pubmed is not among our data.  The F-score is (4.24) with the erratum, scikit-learn's macro
F1.  Majority voting of Table 4.3 gives ties to the first class (0.7046 on music); ours breaks them better.

The field, the start, the shrinkage and the estimator of correlated errors were chosen on seeds 0 to 9 of Cora, on music
and on simulated networks; the average with ``auto`` among five variants on seeds 0 to 2, music and two simulations.
Seeds 100 to 109 were measured first and prompted the correlation step: there the gain over majority voting with ties
broken was 0.353, below Alg. 4.4's 0.363.  Seeds 300 to 309 are shown here; they had been used once, without the
average.  The figures of music are not independent of the choices.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.breaking import trials
from benchmarks.figures import Figure
from consilience import Annotations
from consilience.datasets import load, path
from consilience.exceptions import ConsilienceWarning
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base import registry
from consilience.metrics import expected_calibration_error
from consilience.structured.graph import Graph, as_graph, nearest_neighbours
from consilience.structured.network_em import network_em

SEEDS = range(300, 310)
#: Training nodes of a classifier.
TRAINED_ON = {"cora": 150, "citeseer": 100}
#: Table 4.3: majority voting, i.i.d. Dawid-Skene from moments, Alg. 4.4, and Alg. 4.3 from majority voting
THESIS = {
    "cora": (0.2785, 0.4228, 0.6412, 0.336),
    "citeseer": (0.4257, 0.4449, 0.5244, 0.5224),
    "music": (0.7046, 0.4746, 0.7649, 0.8029),
}
PLAIN = "majority, ties to the first class"
STARTS = ("majority", "ds-em", "tensor-admm+em", "auto")
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "ICM": {"inference": "icm"},
    "labels count in full": {"correlation": 0.0},
    "field of the thesis (none)": {"field": "uniform"},
    "field log prior": {"field": "prior"},
    "delta 0.5": {"delta": 0.5},
    "delta 1": {"delta": 1.0},
    "delta 2": {"delta": 2.0},
    "delta 4": {"delta": 4.0},
}


def classifiers(seed: int) -> dict[str, Any]:
    """Return ten kinds of classifiers with their defaults."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    return {
        "nearest neighbours": KNeighborsClassifier(),
        "tree": DecisionTreeClassifier(random_state=seed),
        "linear SVM": SVC(kernel="linear"),
        "cubic SVM": SVC(kernel="poly"),
        "Gaussian SVM": SVC(),
        "naive Bayes": GaussianNB(),
        "linear discriminant": LinearDiscriminantAnalysis(),
        "boosted stumps": AdaBoostClassifier(random_state=seed),
        "random forest": RandomForestClassifier(random_state=seed),
        "logistic": LogisticRegression(),
    }


def citations(name: str) -> tuple[Floats, Ints, Ints]:
    """Return words (nodes × words), classes and citations."""
    folder = path(name)

    def numbers(name: str) -> Ints:
        open_text = gzip.open if name.endswith(".gz") else open
        with open_text(folder / name, "rt") as file:
            return np.loadtxt(file, np.int64, delimiter=",", skiprows=1)

    truth, words, edges = numbers("truth.csv"), numbers("features.csv.gz"), numbers("edges.csv")
    nodes, y = truth[np.argsort(truth[:, 0])].T  # some nodes of CiteSeer have no class: they are left out
    words = words[np.isin(words[:, 0], nodes)]
    X = np.zeros((nodes.size, int(words[:, 1].max()) + 1))
    X[np.searchsorted(nodes, words[:, 0]), words[:, 1]] = 1.0
    edges = np.searchsorted(nodes, edges[np.isin(edges, nodes).all(axis=1)])
    return X, y, edges


def labels_of(X: Floats, y: Ints, rows: int, seed: int) -> Ints:
    """Return the labels of the ten classifiers, (nodes, 10)."""
    rng = np.random.default_rng(seed)
    said = []
    for classifier in classifiers(seed).values():
        own = rng.choice(len(y), rows, replace=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns about convergence and collinear words
            said.append(classifier.fit(X[own], y[own]).predict(X))
    return np.column_stack(said)


def music() -> tuple[Annotations, Ints, Graph]:
    """Return labels, classes, and the graph of the three nearest by standardised features."""
    from sklearn.preprocessing import StandardScaler

    crowd: Any = load("music")
    with gzip.open(path("music") / "features.csv.gz", "rt") as file:
        rows = list(csv.reader(file))[1:]
    features = StandardScaler().fit_transform(np.array([row[1:-1] for row in rows], float))
    graph = nearest_neighbours(features, 3, items=[row[0] for row in rows])
    return crowd.annotations, crowd.annotations.codes_of_truth(crowd.truth).astype(np.int64), graph


def f_score(labels: Ints, truth: Ints) -> float:
    """Return (4.24), the mean over classes of the harmonic mean of precision and recall."""
    from sklearn.metrics import f1_score

    return float(f1_score(truth, labels, average="macro"))


Row = tuple[float, float, float]  # F-score, calibration error, delta


def measured(fit: Fit, truth: Ints) -> Row:
    error = expected_calibration_error(fit.posterior, truth)
    return f_score(fit.choice.best.astype(np.int64), truth), error, float(fit.details.get("delta", 0.0))


def thesis_setting(name: str, annotations: Annotations) -> dict[str, Any]:
    """Run the method of the thesis: ICM, no field, and its δ (M, or half the labels of an item), twice ours."""
    delta: Any = annotations.n_annotators / 2 if name in TRAINED_ON else annotations.labels_per_item / 4
    return {"inference": "icm", "field": "uniform", "delta": delta, "correlation": 0.0}


def trial(name: str, annotations: Annotations, graph: Any, truth: Ints) -> dict[str, Row]:
    """Run every start, alone and on the graph, and every variant from the votes."""
    votes = registry.fit("majority", annotations).posterior
    rows: dict[str, Row] = {
        PLAIN: (f_score(votes.argmax(axis=1), truth), expected_calibration_error(votes, truth), 0.0)
    }
    joined = as_graph(graph, annotations)
    for start in STARTS:
        takes_seed = "random_state" in registry.resolve(start)[0].parameters
        seeded: dict[str, Any] = {"random_state": 0} if takes_seed else {}
        alone = registry.fit(start, annotations, **seeded)
        rows[start] = measured(alone, truth)
        rows[f"{start}+network"] = measured(network_em(annotations, joined, method=alone), truth)
        printed = network_em(annotations, joined, method=alone, **thesis_setting(name, annotations))
        rows[f"{start}+network, as in the thesis"] = measured(printed, truth)
    for variant, options in VARIANTS.items():
        rows[f"majority+network: {variant}"] = measured(network_em(annotations, joined, **options), truth)
    return rows


def table(title: str, done: list[dict[str, Row]]) -> dict[str, float]:
    print(f"\n{title}\n{'':44s} F-score   (sd)  calibration  delta")
    scores = {}
    for name in done[0]:
        values = np.array([each[name] for each in done])
        scores[name] = float(values[:, 0].mean())
        spread, (_, error, delta) = values[:, 0].std(), values.mean(axis=0).tolist()
        print(f"{name:44s} {scores[name]:7.4f} {spread:6.3f} {error:12.3f} {delta:6.2f}")
    return scores


def on_citations(name: str) -> Iterable[Figure]:
    X, y, edges = citations(name)
    done, alone = [], []
    for seed in SEEDS[: trials(len(SEEDS))]:
        said = labels_of(X, y, TRAINED_ON[name], seed)
        alone.append([f_score(said[:, m], y) for m in range(said.shape[1])])
        done.append(trial(name, Annotations.from_matrix(said), edges, y))
    print("each classifier alone:")
    for kind, score in zip(classifiers(0), np.mean(alone, axis=0), strict=True):
        print(f"  {kind:22s} {score:.3f}")
    votes, _, on_graph, _ = THESIS[name]
    scores = table(f"{name}, {len(done)} times ten classifiers; thesis: {THESIS[name]}", done)
    ours, gain = scores["majority+network"], on_graph - votes
    yield Figure(f"{name}: F-score of majority voting, ties broken (none in the thesis)", scores["majority"])
    yield from cells(name, scores)
    yield Figure(f"{name}: above majority voting, ties to the first class, by", ours - scores[PLAIN], gain, up=True)
    yield Figure(f"{name}: above majority voting, ties broken, by", ours - scores["majority"], gain, up=True)


def cells(name: str, scores: Mapping[str, float]) -> Iterable[Figure]:
    """Yield the row of Table 4.3."""
    rows = {
        "majority voting, ties to the first class": PLAIN,
        "i.i.d. tensor-admm+em": "tensor-admm+em",
        "on the graph, Alg. 4.4": "majority+network",
        "on the graph from votes, as in the thesis": "majority+network, as in the thesis",
    }
    for (what, row), known in zip(rows.items(), THESIS[name], strict=True):
        # the thesis prints four decimals
        yield Figure(f"{name}: F-score, {what}", scores[row], known, up=True, cell=True, slack=5e-5)


def on_music() -> Iterable[Figure]:
    annotations, truth, graph = music()
    scores = table(f"music genre, k = 3; thesis: {THESIS['music']}", [trial("music", annotations, graph, truth)])
    yield from cells("music", scores)


def run() -> list[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return [*on_citations("cora"), *on_citations("citeseer"), *on_music()]
