"""Calibration of ``auto``, Dawid-Skene EM and votes.

Eleven public crowds with correlated errors, and two simulated ones with independent annotators: there the
model is right, and confidence must not be tempered.

Two constants of :mod:`consilience.auto.calibration` determine how much ``auto`` tempers confidence.  They were
chosen with the public crowds in view, so each crowd in turn is left out, and the constants that are best on the other
ten (mean calibration error, over a grid) are evaluated on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import consilience as cs
from benchmarks.breaking import print_table, trials
from benchmarks.field import CALIBRATION, CROWDS, Crowd, Score, crowd, judge, skipped
from benchmarks.figures import Figure
from benchmarks.pictures import blank, save
from consilience import metrics
from consilience.auto import auto as auto_module
from consilience.auto import calibration, constants
from consilience.diagnose import constants as thresholds
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
from consilience.methods.base import registry

METHODS = {"majority": "#15803d", "ds-em": "#c2410c", "auto": "#1d4ed8"}
#: Crowds of independent annotators: items, annotators, classes, labels per item.
INDEPENDENT = {"independent, K = 4": (3000, 50, 4, 5), "independent, K = 2": (2000, 30, 2, 10)}
#: What auto may lose to ds-em where the model is right.
LOSS = 0.01
#: Bins with fewer items are not plotted.
FEW = 5
#: Crowds per figure.
TRIALS = 5
#: Draws of correct labels with the claimed probabilities.
TOSSES = 200
#: The constants to choose from, (TYPICAL, DOUBT).
GRID = tuple(itertools.product((0.1, 0.15, 0.2, 0.25, 0.3), (0.03, 0.04, 0.05, 0.06, 0.07)))


def simulated(name: str, seed: int = 0) -> Crowd:
    """Draw a crowd from the Dawid-Skene model."""
    items, annotators, classes, labels = INDEPENDENT[name]
    drawn = cs.simulate(items, annotators, classes, labels_per_item=labels, seed=seed)
    return Crowd(drawn.annotations, drawn.truth)


def run() -> list[Figure]:
    public = {} if skipped() else {name: crowd(name) for name in CROWDS}
    crowds = {**public, **{name: simulated(name) for name in INDEPENDENT}}
    fits = {(name, method): registry.fit(method, on.annotations) for name, on in crowds.items() for method in METHODS}
    scores = {(name, method): scored(fit, crowds[name]) for (name, method), fit in fits.items()}
    print_table(
        "Expected calibration error, and mean confidence with accuracy",
        ["", *METHODS, "auto, were it exact", *(f"{method}: confidence, accuracy" for method in METHODS)],
        [
            [
                name,
                *(f"{scores[name, method].calibration:.3f}" for method in METHODS),
                f"{floor(fits[name, 'auto'], on):.3f}",
                *(confidence_and_accuracy(fits[name, method], scores[name, method], on) for method in METHODS),
            ]
            for name, on in crowds.items()
        ],
    )
    diagrams(crowds, fits)
    bars(crowds, scores)
    figures = [figure for name in INDEPENDENT for figure in where_the_model_is_right(name)]
    return figures + leave_one_out(public) if public else figures


def where_the_model_is_right(name: str) -> list[Figure]:
    """Compare auto with ds-em on independent annotators: mean and worst of several draws."""
    draws = [simulated(name, seed) for seed in range(trials(TRIALS))]
    ours, plain = (
        np.array([scored(registry.fit(method, on.annotations), on).calibration for on in draws])
        for method in ("auto", "ds-em")
    )
    return [
        Figure(f"{name}: calibration error of auto (ds-em {plain.mean():.4f})", ours.mean(), plain.mean() + LOSS),
        Figure(f"    over that of ds-em, worst of {len(draws)} draws", float((ours - plain).max())),
    ]


def floor(fit: Fit, on: Crowd) -> float:
    """Return the expected calibration error if every label were right with exactly the claimed probability.

    It is positive: in a bin of few items, the share of right labels differs from its expectation.
    """
    judged = on.truth >= 0
    confidence = fit.posterior[np.arange(judged.size), fit.choice.best][judged]
    forecast = np.column_stack([confidence, 1.0 - confidence])
    label = np.zeros(confidence.size, np.int64)
    rng = np.random.default_rng(0)
    tosses = ((rng.random(confidence.size) >= confidence).astype(np.int64) for _ in range(TOSSES))
    return float(np.mean([metrics.expected_calibration_error(forecast, toss, labels=label) for toss in tosses]))


def scored(fit: Fit, on: Crowd) -> Score:
    return judge(fit.posterior, fit.choice.best, on.truth)


def confidence_and_accuracy(fit: Fit, score: Score, on: Crowd) -> str:
    confidence = metrics.mean_confidence(fit.posterior, on.truth, labels=fit.choice.best)
    return f"{confidence:.3f}, {1 - score.error / 100:.3f}"


# ---- constants chosen on other crowds -------------------------------------------------------------------


class Before(NamedTuple):
    """A fit of auto before confidence is brought down, and what :func:`calibration.soften` is to be called with."""

    fit: Fit  #: as if errors were independent
    again: Callable[[], Floats]  #: gives the probabilities as the constants are

    def with_constants(self, correlation: float, doubt: float) -> Fit:
        """Bring confidence down by other constants."""
        with patch.object(thresholds, "TYPICAL", correlation), patch.object(constants, "DOUBT", doubt):
            return replace(self.fit, posterior=self.again())


def before_softening(on: Crowd) -> Before:
    """Run auto, and stop at the last step."""
    calls: list[tuple[Any, ...]] = []

    def record(annotations: Any, posterior: Floats, *others: Any) -> Floats:
        calls.append((annotations, posterior, *others))
        return posterior

    with patch.object(auto_module, "soften", record):
        fit = registry.fit("auto", on.annotations)
    if calls:  # subtypes are averaged differently
        return Before(fit, partial(calibration.soften, *calls[-1]))
    ensemble: Any = fit.predictor
    plain, _ = replace(ensemble, correlation=0.0)(on.annotations)
    return Before(replace(fit, posterior=plain), lambda: ensemble(on.annotations)[0])


def leave_one_out(crowds: Mapping[str, Crowd]) -> list[Figure]:
    """Choose the constants on ten crowds, and evaluate them on the eleventh."""
    fits = {name: before_softening(on) for name, on in crowds.items()}
    usual = thresholds.TYPICAL, constants.DOUBT

    def errors(constants: tuple[float, float]) -> Floats:
        """Return the calibration error on each crowd."""
        made = {name: fit.with_constants(*constants) for name, fit in fits.items()}
        return np.array([scored(fit, crowds[name]).calibration for name, fit in made.items()])

    table = np.stack([errors(constants) for constants in GRID])  # (constants, crowds)
    as_is, without = errors(usual), np.array([scored(fit.fit, crowds[name]).calibration for name, fit in fits.items()])
    chosen = [int(np.argmin(np.delete(table, i, axis=1).mean(axis=1))) for i in range(len(crowds))]
    left_out = table[chosen, np.arange(len(crowds))]
    print_table(
        "Calibration error of auto with constants chosen on the other ten crowds",
        ["left out", "chosen ρ, ε", "chosen on the others", f"as released {usual}", "not softened"],
        [
            *(
                [name, f"{GRID[chosen[i]]}", f"{left_out[i]:.3f}", f"{as_is[i]:.3f}", f"{without[i]:.3f}"]
                for i, name in enumerate(crowds)
            ),
            ["mean", "", f"{left_out.mean():.4f}", f"{as_is.mean():.4f}", f"{without.mean():.4f}"],
        ],
    )
    means = table.mean(axis=1)
    rhos, doubts = (sorted({constants[i] for constants in GRID}) for i in (0, 1))
    print_table(
        "Mean calibration error over the grid",
        ["ρ \\ ε", *(f"{doubt:g}" for doubt in doubts)],
        [[f"{rho:g}", *(f"{means[GRID.index((rho, doubt))]:.4f}" for doubt in doubts)] for rho in rhos],
    )
    return [
        Figure("mean calibration error of auto, constants as released", float(as_is.mean()), CALIBRATION),
        Figure("the same, constants chosen on the other crowds", float(left_out.mean()), CALIBRATION),
        Figure("the same, the best constants of the grid for all eleven", float(means.min())),
        Figure("the same, the worst constants of the grid", float(means.max())),
        Figure("the same, not softened", float(without.mean())),
    ]


# ---- plots -------------------------------------------------------------------------------------------


def diagrams(crowds: Mapping[str, Crowd], fits: Mapping[tuple[str, str], Fit]) -> None:
    """Plot accuracy over confidence, a panel for each crowd; the area of a dot is the share of items in its bin.

    Bins of fewer than FEW items are left out of the plot, but not of the figures.
    """
    columns = 5
    lines = -(-len(crowds) // columns)
    canvas = blank(2.5 * columns, 2.7 * lines)
    if canvas is None:
        return
    grid = canvas.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (name, on) in zip(grid, crowds.items(), strict=False):
        axes.plot([0, 1], [0, 1], color="0.75", linewidth=0.8)
        for method, colour in METHODS.items():
            fit = fits[name, method]
            bins = metrics.reliability(fit.posterior, on.truth, labels=fit.choice.best)
            full = bins.count >= FEW
            share = bins.count[full] / bins.count.sum()
            axes.plot(bins.confidence[full], bins.accuracy[full], color=colour, linewidth=0.9, alpha=0.6)
            axes.scatter(
                bins.confidence[full],
                bins.accuracy[full],
                s=6 + 130 * share,
                color=colour,
                alpha=0.75,
                linewidth=0,
                label=f"{method} {bins.calibration_error:.3f}",
            )
        axes.set_title(name, fontsize=10)
        axes.set(xlim=(0.2, 1.03), ylim=(-0.03, 1.5), yticks=np.linspace(0, 1, 6))
        axes.grid(color="0.93", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        legend = axes.legend(frameon=False, fontsize=7, loc="upper left", handlelength=0.8, borderaxespad=0.1)
        for handle in legend.legend_handles:
            handle.set_sizes([20])
    for axes in grid[len(crowds) :]:
        axes.axis("off")
    canvas.supxlabel("confidence")
    canvas.supylabel("share of right labels")
    canvas.suptitle("Reliability, and expected calibration error", fontsize=11)
    save(canvas, "calibration.png")


def bars(crowds: Mapping[str, Crowd], scores: Mapping[tuple[str, str], Score]) -> None:
    """Plot the calibration errors."""
    canvas = blank(12, 3.4)
    if canvas is None:
        return
    axes = canvas.subplots()
    places = np.arange(len(crowds))
    for i, (method, colour) in enumerate(METHODS.items()):
        heights = [scores[name, method].calibration for name in crowds]
        axes.bar(places + 0.27 * (i - 1), heights, 0.25, color=colour, label=method)
    axes.axhline(CALIBRATION, color="0.4", linewidth=0.8, linestyle="--")
    axes.set_xticks(places, [name.replace(", ", "\n").replace("_", "\n") for name in crowds], fontsize=9)
    axes.set(ylabel="expected calibration error", xlim=(-0.6, len(crowds) - 0.4))
    axes.grid(axis="y", color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(METHODS))
    save(canvas, "calibration_error.png")
