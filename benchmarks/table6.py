"""Table 6 of Ibrahim & Fu (2022): recovery of the model from exact co-occurrences with missing blocks.

There is no sampling error here.  The remaining error comes from the specialist, who is only nearly perfect: then many
rotations of the square root are nonnegative, and X does not determine the true one.  A rare class makes it worse,
because the specialist's row of H for class k, A(k, :) D^(1/2), is close to e_k only if √λ_k is large relative to the
other entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.breaking import trials as crowds
from benchmarks.figures import Figure
from benchmarks.paper import CLASSES, CROWD, EPSILON, TRIALS, exact_pairs, mean_squared_error, random_model
from benchmarks.pictures import curves
from consilience.factor.square_root import square_root
from consilience.factor.symnmf import rotate
from consilience.kernels._arrays import Floats
from consilience.methods.base.factor_model import model_of_factor
from consilience.models.dawid_skene import DawidSkene
from consilience.moments import CoOccurrences
from consilience.moments.imputation import designated, random_factors, robust

#: method, share of missing blocks: the paper's MSE
PAPER = {
    ("rob-symnmf", 0.7): 4.10e-3,
    ("rob-symnmf", 0.5): 1.70e-3,
    ("rob-symnmf", 0.3): 3.44e-4,
    ("des-symnmf", 0.7): 2.84e-4,
    ("des-symnmf", 0.5): 4.59e-4,
    ("des-symnmf", 0.3): 3.05e-4,
}
STARTS, ROTATIONS, XI = 16, 20, 1e-6
#: With equal classes, an inexact specialist does not explain a larger MSE.
FAR = 1e-3
#: Entries of X that differ by less count as equal: 1e10 items would not distinguish them.
SAME = 1e-5


class Trial(NamedTuple):
    """Result for one crowd."""

    mse: float
    lookalike: bool  #: whether the model is far from the truth and yet reproduces X, so that X cannot distinguish them


def robust_root(pairs: CoOccurrences, rng: np.random.Generator) -> Floats:
    """Return the factors with the smallest objective of several random starts; stop at an exact fit."""
    fits = []
    for _ in range(STARTS):
        start = random_factors(rng, CROWD, CLASSES)
        fits.append(robust(pairs, start, count_weights=False, xi=XI, max_iter=3000, tol=1e-9))
        if fits[-1].history[-1] <= (1 + 1e-6) * len(pairs) * np.sqrt(XI):
            break
    return min(fits, key=lambda fit: fit.history[-1]).factors.reshape(-1, CLASSES)


def error(H: Floats, truth: DawidSkene) -> float:
    """Return the MSE of the model given by H."""
    model = model_of_factor(H.reshape(CROWD, CLASSES, CLASSES), np.ones(CROWD, np.int64), 0.0)
    return mean_squared_error(model, truth)


def complete(model: DawidSkene) -> Floats:
    """Return X = H Hᵀ with all its blocks, the diagonal ones too, eq. (6)."""
    H = (model.confusions * np.sqrt(model.prior)).reshape(-1, CLASSES)
    X: Floats = H @ H.T
    return X


def rotated(U: Floats, truth: DawidSkene, rng: np.random.Generator) -> Trial:
    """Rotate a square root and compare the model with the truth.

    If they differ much, the rotation continues to convergence, to see whether it stopped early or reached a
    model that reproduces X as well as the truth does.
    """
    found = rotate(U, starts=ROTATIONS, random_state=rng)
    mse = error(found.H, truth)
    if mse <= FAR:
        return Trial(mse, False)
    end = rotate(U @ found.Q, starts=1, max_iter=20_000, tol=1e-13).H
    return Trial(mse, error(end, truth) > FAR and bool(np.abs(end @ end.T - complete(truth)).max() < SAME))


def trials(missing: float, *, uniform: bool, distance: float | None) -> dict[str, list[Trial]]:
    """Run both methods on the same crowds."""
    found: dict[str, list[Trial]] = {"rob-symnmf": [], "des-symnmf": []}
    for trial in range(crowds(TRIALS)):
        rng = np.random.default_rng([trial, round(100 * missing)])
        truth = random_model(rng, uniform=uniform, distance=distance)
        pairs = exact_pairs(truth, missing, rng)
        found["rob-symnmf"].append(rotated(robust_root(pairs, rng), truth, rng))
        found["des-symnmf"].append(rotated(square_root(designated(pairs).matrix, CLASSES), truth, rng))
    return found


def exact_specialist() -> float:
    """Return the largest MSE with a perfect specialist and all blocks of X."""
    worst = 0.0
    for trial in range(crowds(TRIALS)):
        rng = np.random.default_rng(trial)
        truth = random_model(rng, uniform=True, distance=0.0)
        U = square_root(complete(truth), CLASSES)
        worst = max(worst, error(rotate(U, starts=ROTATIONS, max_iter=5000, random_state=rng).H, truth))
    return worst


def run() -> list[Figure]:
    figures = []
    panels: dict[str, dict[str, list[float]]] = {}
    for crowd, uniform, distance in (
        ("equal classes", True, None),
        (f"specialist {EPSILON:g} away", True, EPSILON),
        ("Dirichlet prior", False, None),
    ):
        for missing in (0.7, 0.5, 0.3):
            for method, came in trials(missing, uniform=uniform, distance=distance).items():
                paper, equal = PAPER[method, missing], crowd == "equal classes"
                name = f"T6 MSE, {missing:.0%} missing, {crowd}: {method} (paper {paper:.2g})"
                mse = [trial.mse for trial in came]
                lines = panels.setdefault(crowd, {})
                lines.setdefault(method, []).append(float(np.mean(mse)))
                lines.setdefault(f"{method}, paper", []).append(paper)
                figures.append(Figure(name, float(np.mean(mse)), paper if equal else None, cell=equal))
                far, alike = sum(value > FAR for value in mse), sum(trial.lookalike for trial in came)
                detail = f"median {np.median(mse):.1e}, above {FAR:g} in {far} trials, of which {alike} are lookalikes"
                print(figures[-1], f"    {detail}", sep="\n", flush=True)
    figures.append(Figure("T6 MSE, exact specialist and complete X: largest of the trials", exact_specialist(), 1e-10))
    print(figures[-1], f"(a lookalike gives every entry of X to {SAME:g}, and is another model)", sep="\n")
    curves("table6.png", "blocks missing, %", (70, 50, 30), panels, log_x=False)
    return figures
