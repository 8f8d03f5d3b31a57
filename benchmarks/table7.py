"""Table 7 of Ibrahim & Fu (2022): recovery of the model from labels of N items, each kept with probability 0.3.

EM from the truth is the limit for any start.  With equal classes ``rob-symnmf+em`` has to reach it.
With a prior from a flat Dirichlet some classes are so rare that another optimum may have a higher likelihood than the
one near the truth, which no fit can detect.  A trial fails only if ours is the worse model *and* has the lower
objective.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.breaking import trials as crowds
from benchmarks.figures import Figure, two_errors
from benchmarks.paper import TRIALS, mean_squared_error, random_model
from benchmarks.pictures import curves
from consilience.fitting.em import Parameters
from consilience.fitting.fit import Fit
from consilience.methods.base.refinement import refine
from consilience.methods.base.registry import fit, resolve
from consilience.methods.ds_em import dawid_skene_em

#: method: the paper's MSE at N = 1000, 5000 and 10,000.  MV-EM of the paper gets worse with more items: a class without
#: labels of an annotator is 0/0 there.
PAPER = {
    "rob-symnmf": (0.0099, 0.0019, 0.0012),
    "des-symnmf": (0.0127, 0.0038, 0.0029),
    "multispa": (0.2248, 0.1645, 0.1575),
    "cnmf": (0.0314, 0.0036, 0.0009),
    "tensor-admm": (0.0218, 0.0041, 0.0011),
    "spectral-ds": (0.0465, 0.0259, 0.0050),
    "ds-em": (0.0495, 0.0866, 0.1051),
}
PAPER_SECONDS = {
    "rob-symnmf": 0.342,
    "des-symnmf": 0.072,
    "multispa": 0.0148,
    "cnmf": 22.475,
    "tensor-admm": 27.263,
    "spectral-ds": 17.492,
    "ds-em": 0.055,
}
SIZES = 1000, 5000, 10_000
REFINED = "rob-symnmf+em"
#: Models whose MSEs are within this factor count as equally good.
AS_GOOD = 1.02


class Trial(NamedTuple):
    """Errors and seconds by method; "truth" stands for EM from the truth."""

    mse: dict[str, float]
    seconds: dict[str, float]
    ahead: float  #: our objective minus that of EM from the truth

    @property
    def ratio(self) -> float:
        """Our MSE relative to that of EM from the truth."""
        return self.mse[REFINED] / self.mse["truth"]


def one(trial: int, N: int, *, uniform: bool) -> Trial:
    rng = np.random.default_rng([trial, N, uniform])
    truth = random_model(rng, uniform=uniform)
    a, _ = truth.sample(N, label_probability=0.3, random_state=rng)
    fits, seconds = {}, {}
    for method in (*PAPER, REFINED) if uniform else ("rob-symnmf", REFINED):
        begun = time.perf_counter()
        seeded: dict[str, Any] = {"random_state": trial} if "random_state" in resolve(method)[0].parameters else {}
        fits[method] = fit(method, a, **seeded)
        seconds[method] = time.perf_counter() - begun
    if uniform:
        fits["truth"] = dawid_skene_em(a, start=Parameters(truth.prior, truth.confusions))
    else:  # the same EM as ours, with its penalty
        fits["truth"] = refine(a, Fit(truth, *truth.posterior_and_likelihood(a)))
    mse = {name: mean_squared_error(f.model, truth) for name, f in fits.items()}
    return Trial(mse, seconds, max(fits[REFINED].history) - max(fits["truth"].history))


def run() -> list[Figure]:
    one(0, 1000, uniform=True)  # compile everything
    panels: dict[str, dict[str, list[float]]] = {"equal classes": {}, "Dirichlet prior": {}}
    for method, paper in PAPER.items():
        panels["equal classes"][f"{method}, paper"] = list(paper)
    figures = equal_classes(panels["equal classes"]) + dirichlet_prior(panels["Dirichlet prior"])
    curves("table7.png", "items N", SIZES, panels, log_x=True)
    return figures


def equal_classes(lines: dict[str, list[float]]) -> list[Figure]:
    figures = []
    for i, N in enumerate(SIZES):
        trials = [one(trial, N, uniform=True) for trial in range(crowds(TRIALS))]
        note(lines, trials)
        for method, paper in PAPER.items():
            name = f"T7 MSE, N = {N}: {method} (paper {paper[i]:g})"
            mse = [t.mse[method] for t in trials]
            figures.append(Figure(name, float(np.mean(mse)), paper[i], cell=True, slack=two_errors(mse)))
            name = f"T7 seconds, N = {N}: {method} (paper {PAPER_SECONDS[method]:g}, all N)"
            figures.append(Figure(name, float(np.median([t.seconds[method] for t in trials])), unit="s"))
        best = float(np.mean([t.mse["truth"] for t in trials]))
        name = f"T7 MSE, N = {N}: {REFINED} (EM from the truth {best:.3g})"
        figures += [
            Figure(name, float(np.mean([t.mse[REFINED] for t in trials]))),
            Figure(f"T7 MSE / that of EM from the truth, largest, N = {N}", max(t.ratio for t in trials), AS_GOOD),
        ]
        print(*figures[-2 * len(PAPER) - 2 :], sep="\n", flush=True)
    return figures


def note(lines: dict[str, list[float]], trials: list[Trial]) -> None:
    """Add the means of these trials to the lines of the plot."""
    for name in trials[0].mse:
        label = "EM from the truth" if name == "truth" else name
        lines.setdefault(label, []).append(float(np.mean([t.mse[name] for t in trials])))


def dirichlet_prior(lines: dict[str, list[float]]) -> list[Figure]:
    figures = []
    for N in SIZES:
        trials = [one(trial, N, uniform=False) for trial in range(crowds(TRIALS))]
        note(lines, trials)
        mean = {name: float(np.mean([t.mse[name] for t in trials])) for name in trials[0].mse}
        worse = [t for t in trials if t.ratio > AS_GOOD]
        lost = sum(t.ahead < -1.0 for t in worse)
        misled = sum(t.ahead > 0.0 for t in worse)
        figures += [
            Figure(f"T7 MSE, N = {N}, Dirichlet prior: rob-symnmf", mean["rob-symnmf"]),
            Figure(f"T7 MSE, N = {N}, Dirichlet prior: {REFINED} (from the truth {mean['truth']:.3g})", mean[REFINED]),
            Figure(f"T7 trials with a worse model and a lower objective, N = {N}, Dirichlet prior", lost, 0),
            Figure(f"T7 trials with a worse model and a higher objective, N = {N}, Dirichlet prior", misled),
        ]
        print(*figures[-4:], sep="\n", flush=True)
        for t in worse:
            print(f"    MSE {t.mse[REFINED]:.3g}, from the truth {t.mse['truth']:.3g}; objective {t.ahead:+.2f}")
    return figures
