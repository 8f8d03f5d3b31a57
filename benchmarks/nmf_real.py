"""AND on real data: topics of 20 newsgroups (Table 1 of Li & Liang 2017) and components of Olivetti faces (Figure 5).

The paper evaluates both by inspection: topics comparable to those of scikit-learn's NMF and LDA, meaningful components.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from benchmarks.nmf_peers import lda_topics
from benchmarks.pictures import blank, save
from consilience.datasets import path
from consilience.factor.descent import and_nmf, start

__all__ = ["run"]


def newsgroups() -> Any:
    """Return the sparse tf-idf matrix of words by documents, and the words."""
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
    """Print ten topics of 20 newsgroups, the words with the largest entries (Table 1 of the paper)."""
    from sklearn.decomposition import NMF

    counts, Y, words = newsgroups()
    begun = time.process_time()
    ours = and_nmf(Y, start(Y, 10), max_iter=40, tol=0).features
    seconds = {"AND from SPA": time.process_time() - begun}
    begun = time.process_time()
    drawn = and_nmf(Y, start(Y, 10, "random", 0), max_iter=40, tol=0).features
    seconds["AND from random documents, as in the paper"] = time.process_time() - begun
    begun = time.process_time()
    peer = NMF(10, init="nndsvd", random_state=0).fit(Y.T).components_.T
    seconds["NMF (scikit-learn)"] = time.process_time() - begun
    begun = time.process_time()
    lda = lda_topics(counts, 10, max_iter=2)
    seconds["LDA (scikit-learn)"] = time.process_time() - begun
    for (name, took), A in zip(seconds.items(), (ours, drawn, peer, lda), strict=True):
        print(f"{name}, {took:.1f} s")
        for column in A.T:
            print("   ", *words[np.argsort(-column)[:10]])
    return [Figure(f"ten topics of 20 newsgroups: {name}", took, unit="s") for name, took in seconds.items()]


def faces() -> list[Figure]:
    """Plot six components of the Olivetti faces (Figure 5)."""
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
                # pixels of a face are stored column by column
                ax.imshow(column.reshape(64, 64).T, cmap="gray")
                ax.set(xticks=[], yticks=[])
            row[0].set_ylabel(name, fontsize=8)
        save(picture, "olivetti_components.png")
    return figures


def run() -> list[Figure]:
    return topics() + faces()
