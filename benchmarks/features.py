"""Features and classifiers beside labels, next to the product rule, cleanlab's CROWDLAB, votes and Snorkel.

* ``cifar10h_model``: k answers for each image, drawn from the counts of people's answers, and the probabilities of a
  network.  The product rule multiplies them with the vote shares.
* ``music`` and scikit-learn's digits with a simulated crowd: the consensus with and without features.
* ``ws_*``: labelling functions with texts.  Without known answers features do not change the consensus of functions;
  with thirty, texts should help and noise should cost nothing.  A TF-IDF model is trained with nine tenths of the
  training part and tested on the test part and on the other tenth.
* Simulated crowds who err together in a region of the features.
* Time of features next to one fit of the classifier.

CROWDLAB and Snorkel are measured where they are installed: ``make features`` runs this in their environment.
``FEATURE_DRAWS`` (5) is the number of draws and seeds.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import consilience as cs
from benchmarks.figures import Figure
from benchmarks.libraries import matrix
from benchmarks.public import crowd, expected_error, skipped
from consilience import metrics
from consilience.data.annotations import Annotations
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Codes, Floats

DRAWS = int(os.environ.get("FEATURE_DRAWS", "5"))
TEXTS = ("ws_youtube", "ws_trec", "ws_yoruba", "ws_semeval")


def table(name: str, file: str) -> pa.Table:
    return pa.csv.read_csv(cs.datasets.path(name) / file)


def quiet(work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work(*arguments, **options)


def scores(p: Floats, truth: Codes) -> tuple[float, float]:
    return 100.0 * float(np.mean(p.argmax(axis=1) != truth)), metrics.expected_calibration_error(p, truth)


# ---- probabilities -----------------------------------------------------------------------------------------


def cifar() -> tuple[Floats, Floats, Codes]:
    """Return the counts of answers, the network's probabilities and the truth, in the order of the images."""
    counts, model, truth = (
        table("cifar10h_model", f"{name}.csv.gz").sort_by("task") for name in ("counts", "probabilities", "truth")
    )
    names = [name for name in counts.column_names if name != "task"]
    codes = np.array([names.index(str(label)) for label in truth["label"].to_pylist()])
    made = (np.column_stack([each[name].to_numpy() for name in names]).astype(float) for each in (counts, model))
    return *made, codes  # type: ignore[return-value]


def draw(counts: Floats, k: int, rng: np.random.Generator) -> Any:
    """Return k answers for each image, without replacement, (N, k)."""
    return np.array([rng.choice(np.repeat(np.arange(row.size), row.astype(int)), k, replace=False) for row in counts])


def crowdlab(labels: Any, model: Floats) -> tuple[Codes, Floats]:
    """Return CROWDLAB's labels and their quality, its probability that they are right."""
    import pandas as pd
    from cleanlab.multiannotator import get_label_quality_multiannotator

    found = get_label_quality_multiannotator(pd.DataFrame(labels), model, verbose=False)["label_quality"]
    return found["consensus_label"].to_numpy(), found["consensus_quality_score"].to_numpy()


def quality_error(label: Codes, quality: Floats, truth: Codes) -> float:
    """Return the expected calibration error of one probability for each label."""
    right, bins = label == truth, np.minimum((quality * 15).astype(int), 14)
    return float(sum(abs(quality[bins == b].sum() - right[bins == b].sum()) for b in range(15)) / truth.size)


def probabilities() -> Iterator[Figure]:
    counts, model, truth = cifar()
    peer = find_spec("cleanlab") is not None
    print(
        f"{'k':>3} {'votes':>12} {'product':>14} {'CROWDLAB':>14} {'consilience':>14} {'too sure':>14} {'useless':>14}"
    )
    for k in (1, 2, 3, 5):
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            labels = draw(counts, k, rng)
            a = cs.Annotations.from_matrix(labels)
            votes = vote_posterior(a)
            product = votes * model + 1e-12
            sure = model**8 / (model**8).sum(axis=1, keepdims=True)
            noise = rng.dirichlet(np.ones(10), len(model))
            found.setdefault("votes", []).append(scores(votes, truth))
            found.setdefault("product", []).append(scores(product / product.sum(axis=1, keepdims=True), truth))
            if peer and k > 1:  # it needs two annotators
                label, quality = quiet(crowdlab, labels, model)
                error = 100.0 * float(np.mean(label != truth))
                found.setdefault("CROWDLAB", []).append((error, quality_error(label, quality, truth)))
            for name, p in (("consilience", model), ("too sure", sure), ("useless", noise)):
                run = quiet(cs.aggregate, a, probabilities=p)
                found.setdefault(name, []).append(scores(run.posterior, truth))
        mean = {name: np.mean(each, axis=0) for name, each in found.items()}
        names = ("votes", "product", "CROWDLAB", "consilience", "too sure", "useless")
        print(
            f"{k:3d} " + " ".join(f"{mean[n][0]:6.2f} {mean[n][1]:7.4f}" if n in mean else f"{'-':>14}" for n in names)
        )
        if "CROWDLAB" in found and DRAWS > 1:
            less = np.array(
                [one[0] - other[0] for one, other in zip(found["consilience"], found["CROWDLAB"], strict=True)]
            )
            print(
                f"    error minus CROWDLAB's: {less.mean():+.3f} ± {less.std(ddof=1) / DRAWS**0.5:.3f} (standard error)"
            )
        peers = [mean[name] for name in ("product", "CROWDLAB") if name in mean]
        yield Figure(f"cifar10h_model, {k} answers: error %", mean["consilience"][0], min(each[0] for each in peers))
        yield Figure(f"cifar10h_model, {k} answers: ECE", mean["consilience"][1], min(each[1] for each in peers))


# ---- features ----------------------------------------------------------------------------------------------


def music() -> tuple[Annotations, Floats, Codes]:
    a, truth = crowd("music")
    rows = table("music", "features.csv.gz")
    place = {str(name): n for n, name in enumerate(rows["id"].to_pylist())}
    order = np.array([place[str(item)] for item in a.items])
    columns = [name for name in rows.column_names if name not in ("id", "class")]
    return a, np.column_stack([rows[name].to_numpy() for name in columns])[order], truth


def simulated(truth: Codes, K: int, per_item: int, seed: int) -> Annotations:
    """Return labels of twenty annotators who are right in 30 to 90 % and each have their own mistakes."""
    rng = np.random.default_rng(seed)
    accuracy, N = rng.uniform(0.3, 0.9, 20), truth.size
    wrong = rng.dirichlet(np.full(K - 1, 0.7), (20, K))
    matrix = np.full((N, 20), -1)
    for m in range(20):
        seen = np.flatnonzero(np.argsort(np.argsort(rng.random((N, 20)), axis=1), axis=1)[:, m] < per_item)
        moved = np.array([1 + rng.choice(K - 1, p=wrong[m, k]) for k in truth[seen]])
        matrix[seen, m] = np.where(rng.random(seen.size) < accuracy[m], truth[seen], (truth[seen] + moved) % K)
    return Annotations.from_matrix(matrix, classes=list(range(K)))


def features() -> Iterator[Figure]:
    from sklearn.datasets import load_digits

    X, digits = load_digits(return_X_y=True)
    a, rows, truth = music()
    sets: list[tuple[str, Annotations, Any, Codes, float]] = [("music", a, rows, truth, 17.0)]
    sets += [(f"digits, {n} labels", simulated(digits, 10, n, n), X, digits, np.nan) for n in (1, 3)]
    sets += [(name, *texts(name)[:3], np.nan) for name in TEXTS]
    print(f"{'set':24s} {'labels':>15} {'features':>15} {'noise':>15}")
    for name, a, rows, truth, target in sets:
        judged = truth >= 0
        noise = np.random.default_rng(0).normal(size=(a.n_items, 20))
        runs = [quiet(cs.aggregate, a, features=x) for x in (None, rows, noise)]
        found = [scores(run.posterior[judged], truth[judged]) for run in runs]
        print(f"{name:24s} " + " ".join(f"{error:7.2f} {ece:7.3f}" for error, ece in found), runs[1].run["classifier"])
        if not np.isnan(target):
            yield Figure(f"{name}: error % with features", found[1][0], target)
        elif name.startswith("digits"):
            yield Figure(f"{name}: error with features / without", found[1][0] / found[0][0], 0.5)
        yield Figure(f"{name}: points that features cost", found[1][0] - found[0][0], 0.3)
        yield Figure(f"{name}: points that noise costs", found[2][0] - found[0][0], 0.3)


def with_known_answers() -> Iterator[Figure]:
    """Yield what texts, or noise, cost beside labelling functions and thirty known answers, on the other items."""
    for name in TEXTS:
        a, X, truth, parts = texts(name)
        rows = np.flatnonzero((parts != "test") & (a.labels_per_item > 0))
        some, true = a.select_items(rows), truth[rows]
        noise = np.random.default_rng(0).normal(size=(rows.size, 20))
        errors = []
        for seed in range(DRAWS):
            known, rest = np.split(np.random.default_rng(50 + seed).permutation(rows.size), [30])
            taught = some.with_gold({some.items[n]: some.classes[true[n]] for n in known})
            runs = [quiet(posterior, taught, features=x) for x in (None, X[rows], noise)]
            errors.append([scores(p[rest], true[rest])[0] for p in runs])
        without, texts_, noise_ = np.mean(errors, axis=0)
        yield Figure(f"{name}, 30 known answers: error % without texts", without)
        yield Figure(f"{name}, 30 known answers: points that texts cost", texts_ - without, 0.3)
        yield Figure(f"{name}, 30 known answers: points that noise costs", noise_ - without, 0.3)


# ---- annotators who err together in a region of the features -------------------------------------------------


def fooled(X: Floats, truth: Codes, share: float, per_item: int) -> Annotations:
    """Return labels of twenty annotators, a ``share`` of whom name the next class in a fifth of the space."""
    rng, K, M = np.random.default_rng([int(10 * share), per_item]), int(truth.max()) + 1, 20
    side = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9) @ rng.normal(size=X.shape[1])
    right = rng.random((truth.size, M)) < rng.uniform(0.5, 0.9, M)
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, K, right.shape)) % K)
    wrong = (side > np.quantile(side, 0.8))[:, None] & (rng.random(M) < share)
    said = np.where(wrong, (truth[:, None] + 1) % K, said)
    seen = np.argsort(np.argsort(rng.random(said.shape), axis=1), axis=1) < per_item
    return Annotations.from_matrix(np.where(seen, said, -1), classes=list(range(K)))


def regions() -> Iterator[Figure]:
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

    gains = []
    for load in (load_digits, load_breast_cancer, load_iris, load_wine):
        X, truth = load(return_X_y=True)
        rows = np.sort(np.random.default_rng(0).permutation(truth.size)[:600])
        for share in (0.3, 0.5):
            for per_item in (3, 7):
                a = fooled(X[rows], truth[rows], share, per_item)
                runs = [quiet(cs.aggregate, a, features=x) for x in (None, X[rows])]
                without, error = (scores(run.posterior, truth[rows])[0] for run in runs)
                used = runs[1].run["classifier"]["used"]
                print(
                    f"{load.__name__:20s} {share:.1f} {per_item:2d} {without:6.1f} {error:6.1f}  used: {used}",
                    flush=True,
                )
                gains.append(without - error)
    yield Figure("errors in a region: crowds of 16 with lower error", float(np.sum(np.array(gains) > 0)))
    yield Figure("errors in a region: crowds of 16 with an error higher by 0.3", float(np.sum(np.array(gains) < -0.3)))
    yield Figure("errors in a region: mean gain, points", float(np.mean(gains)), up=True)
    yield Figure("errors in a region: largest cost, points", float(-np.min(gains)), 0.3)


# ---- from labelling functions to a classifier --------------------------------------------------------------


def texts(name: str) -> tuple[Annotations, Any, Codes, Any]:
    """Return all items with a truth, labelled or not: labels, texts, truth, and the part of each."""
    rows, truths = table(name, "text.csv.gz"), table(name, cs.datasets.info(name).files[1])
    text = dict(zip(rows["task"].to_pylist(), rows["text"].to_pylist(), strict=True))
    loaded: Any = quiet(cs.datasets.load, name)
    a = loaded.annotations.including(truths["task"])
    truth = quiet(a.codes_of_truth, truths.select(["task", "label"]), strict=False)
    parts = np.array([str(item).split("_")[0] for item in a.items])
    words = [text.get(item) or "" for item in a.items]
    if name == "ws_trec":  # each text of the test part begins with a piece of its true class, such as "def"
        words = [each.partition(" ")[2] if part == "test" else each for each, part in zip(words, parts, strict=True)]
    return a, np.array(words, object), truth, parts


def snorkel(a: Annotations) -> Floats:
    from snorkel.labeling.model import LabelModel

    L = matrix(a, -1).astype(np.int64)
    model = LabelModel(cardinality=a.n_classes, verbose=False)
    model.fit(L, seed=0, progress_bar=False)
    return np.asarray(model.predict_proba(L), np.float64)


def posterior(a: Annotations, **options: Any) -> Floats:
    return cs.aggregate(a, **options).posterior


def equal_shares(p: Floats) -> Floats:
    """Return probabilities as if the classes were equally common."""
    made: Floats = p / np.maximum(p.mean(axis=0), 1e-9)
    made /= made.sum(axis=1, keepdims=True)
    return made


def end_model(X: Any, p: Floats, rng: np.random.Generator) -> Any:
    """Return the model of docs/how-to/training.md.

    The most probable class of every item counts by its probability; ties are broken at random.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    best = (p + 1e-9 * rng.random(p.shape)).argmax(axis=1)
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=10, class_weight="balanced", max_iter=300))
    return model.fit(X, best, logisticregression__sample_weight=p.max(axis=1))


def from_functions() -> Iterator[Figure]:
    ways = ("votes", "votes, equal", "Snorkel", "auto", "auto, equal", "30 known")
    print(
        "Errors in %: of the labels trained with (ties at random) / of the model on the test part / on a tenth left out"
    )
    print(f"{'':12s} " + " ".join(f"{way:>18}" for way in ways))
    for name in TEXTS:
        a, X, truth, parts = texts(name)
        train, test = np.flatnonzero((parts != "test") & (a.labels_per_item > 0)), np.flatnonzero(parts == "test")
        some, true = a.select_items(train), truth[train]
        labels = {"votes": vote_posterior(some), "auto": quiet(posterior, some)}
        labels |= {f"{way}, equal": equal_shares(p) for way, p in labels.items()}
        if find_spec("snorkel"):
            labels["Snorkel"] = quiet(snorkel, some)
        errors: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            out, rest = np.split(rng.permutation(train.size), [train.size // 10])
            taught = some.with_gold({some.items[n]: some.classes[true[n]] for n in rest[:30]})
            labels["30 known"] = quiet(posterior, taught, features=X[train])
            for way, p in labels.items():
                model = end_model(X[train][rest], p[rest], rng)
                found = (
                    expected_error(p[rest], true[rest]),
                    *(100.0 * float(np.mean(model.predict(X[rows]) != truth[rows])) for rows in (test, train[out])),
                )
                errors.setdefault(way, []).append(found)
        mean = {way: np.mean(each, axis=0) for way, each in errors.items()}
        cells = ("{:5.1f} {:5.1f} {:5.1f}".format(*mean[way]) if way in mean else "-" for way in ways)
        print(f"{name:12s} " + " ".join(f"{cell:>18}" for cell in cells), flush=True)
        target = 2.0 if name in ("ws_youtube", "ws_trec") else None
        less = mean["votes"] - mean["auto"]
        yield Figure(f"{name}: end model, points below training on votes", float(less[1]), target, up=True)
        less = mean["votes"] - mean["30 known"]
        yield Figure(f"{name}: with 30 known answers, on the test part", float(less[1]), up=True)
        yield Figure(f"{name}: with 30 known answers, on the tenth left out", float(less[2]), up=True)


# ---- time --------------------------------------------------------------------------------------------------


def speed() -> Iterator[Figure]:
    from consilience.features.members import default_classifier

    rng = np.random.default_rng(0)
    N, K, M = 100_000, 3, 50
    X = rng.normal(size=(N, 300))
    truth = (X @ rng.normal(size=(300, K)) / 4 + rng.gumbel(size=(N, K))).argmax(axis=1)
    who = np.argsort(rng.random((N, M)), axis=1)[:, :5]
    right = rng.random(who.shape) < rng.uniform(0.4, 0.9, M)[who]
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, K, who.shape)) % K)
    long = pa.table({"item": np.repeat(np.arange(N), 5), "annotator": who.ravel(), "label": said.ravel()})
    a = Annotations.from_frame(long)
    begun = time.process_time()
    default_classifier(X).fit(X, truth)
    once = time.process_time() - begun
    begun = time.process_time()
    run = cs.aggregate(a, features=X)
    yield Figure("10^5 items × 300 features: time / one fit", (time.process_time() - begun) / once, 10.0)
    yield Figure("   error %", run.error_rate(truth))
    yield Figure("   error % without features", cs.aggregate(a).error_rate(truth))


def label_errors() -> Iterator[Figure]:
    from sklearn.datasets import load_digits

    X, truth = load_digits(return_X_y=True)
    for per_item in (1, 3):
        rng = np.random.default_rng(per_item)
        labels = np.repeat(truth[:, None], per_item, axis=1)
        wrong = rng.random(labels.shape) < 0.1
        labels = np.where(wrong, (labels + rng.integers(1, 10, labels.shape)) % 10, labels)
        found = quiet(cs.label_errors, labels, features=X)
        rows = zip(found["item"], found["annotator"], strict=True)
        hits = int(sum(wrong[int(n), int(m)] for n, m in rows))
        yield Figure(f"label errors in digits, {per_item} labels, 10 % wrong: precision", hits / max(len(found), 1))
        yield Figure(f"label errors in digits, {per_item} labels, 10 % wrong: recall", hits / int(wrong.sum()))


def label_errors_of_people() -> Iterator[Figure]:
    a, rows, truth = music()
    found, true = quiet(cs.label_errors, a, features=rows), dict(zip(a.items, a.classes[truth], strict=True))
    labels = zip(found[a.origin.item], found[a.origin.label], strict=True)
    hits = sum(true[item] != label for item, label in labels)
    yield Figure("label errors in music: precision", hits / len(found))
    yield Figure("label errors in music: recall", hits / int((a.label != truth[a.item_of_label()]).sum()))


def run() -> list[Figure]:
    made = [*label_errors(), *regions(), *speed()]
    if skipped():
        return made
    return [*made, *label_errors_of_people(), *features(), *with_known_answers(), *from_functions(), *probabilities()]
