"""Convergence of SymNMF with and without a falling threshold (Ibrahim & Fu 2022, Figs 2 and 3, App. C.1.2).

H is 1000 × 3, entries uniform with probability φ, else zero; X = H Hᵀ is observed without noise or at 30 dB.
Both algorithms start from the identity; the error is ‖H Π - H_t‖² / K.  The paper states neither its φ nor its ψ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.breaking import trials
from benchmarks.figures import Figure
from benchmarks.pictures import blank, save
from consilience.factor.square_root import square_root
from consilience.factor.symnmf import rotate
from consilience.kernels._arrays import Floats

J, K, TRIALS = 1000, 3, 20
#: Density φ of H, and the ψ that suits it.
DECAYS = {0.3: 0.7, 0.5: 0.8, 0.7: 0.9}
#: Iterations to evaluate, and error levels to reach.
GRID = [*range(1, 21), *range(22, 41, 2), *range(45, 101, 5), *range(120, 241, 20)]
LEVELS = {None: (1e-2, 1e-6, 1e-12, 1e-20), 30.0: (1.0, 1e-1, 1e-2, 2e-3)}


def problem(density: float, snr: float | None, seed: int) -> tuple[Floats, Floats]:
    """Return a factor, and the square root of its (noisy) matrix."""
    rng = np.random.default_rng(seed)
    H = rng.random((J, K)) * (rng.random((J, K)) < density)
    X = H @ H.T
    if snr is not None:
        # SNR = 10 log10(mean of X² / σ²); the noise is made symmetric, as X is
        noise = np.triu(rng.standard_normal(X.shape) * np.sqrt((X**2).mean() / 10 ** (snr / 10)))
        X += noise + np.triu(noise, 1).T
    return H, square_root(X, K)


def errors(H: Floats, U: Floats, **threshold: Any) -> Floats:
    """Return ‖H Π - H_t‖² / K for every t of the grid."""
    found = []
    for t in GRID:
        H_t = rotate(U, starts=1, max_iter=t, tol=0, **threshold).H
        cost = ((H[:, :, None] - H_t[:, None, :]) ** 2).sum(axis=0)
        found.append(cost[linear_sum_assignment(cost)].sum() / K)
    return np.array(found)


def iterations_to(level: float, curve: Floats) -> float:
    """Return the first iteration at or below the level, by log-linear interpolation between grid points."""
    reached = np.flatnonzero(curve <= level)
    if not reached.size:
        return float("inf")
    i = int(reached[0])
    if i == 0:
        return float(GRID[0])
    above, below = np.log(curve[i - 1 : i + 1])
    part = (above - np.log(level)) / (above - below)
    return float(np.ceil(GRID[i - 1] + part * (GRID[i] - GRID[i - 1])))


def run() -> list[Figure]:
    figures, curves = [], {}
    for snr, levels in LEVELS.items():
        place = "no noise" if snr is None else f"{snr:g} dB"
        for density, decay in DECAYS.items():
            problems = [problem(density, snr, seed) for seed in range(trials(TRIALS))]
            falling = np.array([errors(*p, decay=decay) for p in problems])
            plain = np.array([errors(*p, alpha=0.0) for p in problems])
            curves[snr, density] = falling, plain
            print(f"φ = {density}, ψ = {decay}, {place}: median iterations to an error, α falling / α = 0")
            for level in levels:
                median = [float(np.median([iterations_to(level, c) for c in both])) for both in (falling, plain)]
                print(f"    {level:7.0e}  {median[0]:4.0f} / {median[1]:4.0f}")
            # The target is on speed, without noise and at the smallest error.
            figures += [
                Figure(
                    f"iterations to error {levels[-1]:.0e}, α falling / α = 0, φ = {density}, {place}",
                    median[0] / median[1],
                    0.7 if snr is None else None,
                ),
                Figure(f"median final error, α falling, φ = {density}, {place}", float(np.median(falling[:, -1]))),
                Figure(f"median final error, α = 0, φ = {density}, {place}", float(np.median(plain[:, -1]))),
            ]
    draw(curves)
    return figures


def draw(curves: dict[tuple[float | None, float], tuple[Floats, Floats]]) -> None:
    """Plot every trial as a thin line and the median as a thick one."""
    picture = blank(10, 6)
    if picture is None:
        return
    axes = picture.subplots(len(LEVELS), len(DECAYS), sharex="row", sharey="row")
    for row, snr in enumerate(LEVELS):
        for column, (density, decay) in enumerate(DECAYS.items()):
            ax = axes[row, column]
            labels = rf"$\alpha_t = {decay}^{{\,t+1}}\,\max|U|$", r"$\alpha_t = 0$"
            for each, colour, label in zip(curves[snr, density], ("#c2410c", "#1d4ed8"), labels, strict=True):
                ax.semilogy(GRID, each.T, color=colour, linewidth=0.6, alpha=0.35)
                ax.semilogy(GRID, np.median(each, axis=0), color=colour, linewidth=2.2, label=label)
            ax.set_title(rf"$\varphi = {density}$, " + ("no noise" if snr is None else f"{snr:g} dB"), fontsize=11)
            ax.grid(color="0.9", linewidth=0.6)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False, loc="upper right")
            ax.set_xlim(0, 200 if snr is None else 100)
            ax.set_xticks(range(0, 200, 50) if snr is None else range(0, 100, 25))
    picture.supxlabel("iteration $t$")
    picture.supylabel(r"$\|H\Pi - H_{(t)}\|_F^2 \,/\, K$")
    save(picture, "convergence.png")
