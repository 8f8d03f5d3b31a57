"""``auto`` on 21 crowds, 6 sets of labelling functions and 4 panels of language models, next to votes.

The constants of the pool are ``EXPONENTS`` and ``DOUBT`` of two kinds of annotators; where annotators err together, the
exponent of the votes is twice that of the model.  They minimise the log-loss on public sets, so they are refitted here
without the sets that are judged:

sets        sevenfold over all sets; no fold has two panels or two sets of functions
families    panels and functions are judged with constants that have seen neither a panel nor a set of functions,
            respectively; crowds as above

The log-loss of a set is divided by log K.  The ablation uses the constants refitted without the set.  Errors are in
percent of the items with a truth and a label, ties of votes split; the stated error is one minus the mean confidence.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

import consilience as cs
from benchmarks.breaking import print_table
from benchmarks.figures import Figure
from benchmarks.public import ELEVEN, FAMILIES, Crowd, crowd, expected_error, skipped
from consilience import metrics
from consilience.auto import constants, crowds
from consilience.auto import model as model_module
from consilience.auto.pool import Pool, features, normalised, votes_of
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Codes, Floats
from consilience.methods.base import registry
from consilience.runs.estimated_error import EstimatedError

#: The targets: mean error and expected calibration error of every family; estimated error next to the true one, of
#: families and on the mean over sets; percentage of intervals that hold the true error.
ERROR = {"crowds": 18.6, "functions": 26.5, "panels": 36.3}
CALIBRATION = {"crowds": 0.09, "functions": 0.15, "panels": 0.15}
NEAR, NEAR_EACH, COVERED = 3.0, 7.0, 80.0
#: Excess over votes on any set; mean error of the eleven crowds; loss through noisy copies.
ABOVE_VOTES, OF_ELEVEN, OF_COPIES = 0.7, 14.5, 3.0

#: Where a fit begins (exponents of votes and model, and doubt; exponent of the votes and doubt where annotators err
#: together), and what draws it there: nothing that was learned from a set.
BEGIN, RIDGE = (0.5, 0.5, 0.1, 0.5, 0.1), 1e-3
FOLDS = 7
#: Judged items of a set that are used to fit, at most.
MOST = 1000


class Evidence(NamedTuple):
    """What the pool combines, on the judged items of a set."""

    plain: Floats  #: votes, everybody counted once
    votes: Floats
    posterior: Floats
    n_labels: Floats
    dependent: float
    together: bool
    truth: Codes

    def pooled(self, values: Iterable[float]) -> Floats:
        """Return the probabilities with other constants, in the order of ``BEGIN``."""
        of_votes, of_model, doubt, of_votes_together, doubt_together = values
        exponents = of_votes, of_model
        if self.together:
            exponents, doubt = (of_votes_together, 0.5 * of_votes_together), doubt_together
        both = features(self.votes, self.posterior, self.n_labels, exponents, self.dependent)
        return normalised(both[0] + both[1], self.dependent * doubt)

    def some(self) -> Evidence:
        """Return every n-th item, such that about ``MOST`` remain."""
        step = -(-self.truth.size // MOST)
        plain, votes, posterior, n_labels, dependent, together, truth = self
        some = (values[::step] for values in (plain, votes, posterior, n_labels, truth))
        plain, votes, posterior, n_labels, truth = some
        return Evidence(plain, votes, posterior, n_labels, dependent, together, truth)


def released() -> list[float]:
    """Return the constants of the package."""
    exponents, doubt = constants.EXPONENTS, constants.DOUBT
    assert exponents["together"][1] == 0.5 * exponents["together"][0]
    return [*exponents["assigned"], doubt["assigned"], exponents["together"][0], doubt["together"]]


def evidence(on: Crowd) -> Evidence:
    """Fit ``auto``, and take votes and model apart."""
    fit = registry.fit("auto", on.annotations)
    pool = fit.predictor
    assert isinstance(pool, Pool)
    together = pool.exponents == constants.EXPONENTS["together"]
    judged = np.flatnonzero(on.truth >= 0)
    a: Annotations = on.annotations.select_items(judged)
    votes, n_labels = votes_of(a, pool.counted)
    return Evidence(vote_posterior(a), votes, pool.model(a), n_labels, pool.dependent, together, on.truth[judged])


class Row(NamedTuple):
    """Scores of one way of combining on one set."""

    error: float
    stated: float
    calibration: float


def estimated(on: Crowd) -> tuple[EstimatedError, str]:
    """Return the estimated error and the verdict of a run of ``auto``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        consensus = cs.aggregate(on.annotations, answers="nominal")
        return consensus.estimated_error, str(consensus.verdict)


def error_of_a_run(on: Crowd) -> float:
    """Return the error of what a user gets without any option, in percent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        best = cs.aggregate(on.annotations).choice.best
    return metrics.error_rate(best, on.truth)


def scored(probabilities: Floats, truth: Codes) -> Row:
    return Row(
        expected_error(probabilities, truth),
        100.0 * (1.0 - float(probabilities.max(axis=1).mean())),
        metrics.expected_calibration_error(probabilities, truth),
    )


Rows = dict[str, Row]


def mean(rows: Mapping[str, Row], names: Iterable[str]) -> Row:
    return Row(*np.mean([rows[name] for name in names], axis=0).tolist())


# ---- constants -----------------------------------------------------------------------------------------------------


def log_loss(e: Evidence, values: Iterable[float]) -> float:
    """Return the log-loss in units of log K; items of a class that nobody names do not count."""
    p, named = e.pooled(values), e.truth < e.votes.shape[1]
    return -float(np.log(p[named, e.truth[named]]).mean()) / float(np.log(p.shape[1]))


def fitted(sets: Iterable[Evidence]) -> Floats:
    """Return the constants with the least mean log-loss."""
    from scipy.optimize import minimize

    chosen, begin = list(sets), np.log(BEGIN)

    def values(logs: Floats) -> Floats:
        return np.minimum(np.exp(logs), [9.0, 9.0, 0.9, 9.0, 0.9])

    def loss(logs: Floats) -> float:
        ridge = RIDGE * float(((logs - begin) ** 2).sum())
        return float(np.mean([log_loss(e, values(logs)) for e in chosen])) + ridge

    found = minimize(loss, begin, method="Powell", options={"maxfev": 400, "ftol": 1e-4, "xtol": 1e-2})
    return values(np.asarray(found.x))


def left_out(known: Mapping[str, Evidence]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return constants for every set, fitted without it, and without its family unless that is the crowds."""
    by_set: dict[str, Floats] = {}
    some = {name: e.some() for name, e in known.items()}
    for fold in range(FOLDS):
        out = list(known)[fold::FOLDS]
        by_set |= dict.fromkeys(out, fitted(some[name] for name in some if name not in out))
    by_family = dict(by_set)
    for family in ("functions", "panels"):
        values = fitted(some[name] for name in some if name not in FAMILIES[family])
        by_family |= dict.fromkeys(FAMILIES[family], values)
        print(f"constants without {family}:", values.round(3).tolist())
    average = np.mean(list(by_set.values()), axis=0)
    print("mean of the constants without the judged sets:", average.round(3).tolist())
    return by_set, by_family


# ---- ablation ------------------------------------------------------------------------------------------------------


def without_subtypes() -> AbstractContextManager[object]:
    return patch.object(model_module, "SUBTYPE_CELLS", 0)


def without_copies() -> AbstractContextManager[object]:
    return patch.object(crowds, "find_copies", lambda _: ())


def ways(base: Mapping[str, Evidence], values: Mapping[str, Floats]) -> dict[str, Rows]:
    """Return the scores of parts of ``auto`` on every set."""

    def each(made: Callable[[str], Floats]) -> Rows:
        return {name: scored(made(name), base[name].truth) for name in base}

    def changed(how: Callable[[], AbstractContextManager[object]]) -> Rows:
        with how():
            return each(lambda name: evidence(crowd(name)).pooled(values[name]))

    return {
        "votes alone": each(lambda name: base[name].plain),
        "model alone": each(lambda name: base[name].posterior),
        "model and votes, pooled": each(lambda name: base[name].pooled(values[name])),
        "the same without subtypes": changed(without_subtypes),
        "the same without copies": changed(without_copies),
    }


# ---- tables --------------------------------------------------------------------------------------------------------


def run() -> list[Figure]:
    if skipped():
        return []
    begun = time.perf_counter()
    sets = [name for names in FAMILIES.values() for name in names]
    base = {name: evidence(crowd(name)) for name in sets}
    as_released = {name: scored(e.pooled(released()), e.truth) for name, e in base.items()}
    votes = {name: scored(e.plain, e.truth) for name, e in base.items()}
    runs = {name: estimated(crowd(name)) for name in sets}
    estimates = {name: estimate for name, (estimate, _) in runs.items()}
    show(votes, as_released, estimates)
    by_set, by_family = left_out(base)
    table = ways(base, by_set)
    table["pooled, constants from other families"] = {
        n: scored(base[n].pooled(by_family[n]), base[n].truth) for n in base
    }
    table["pooled, constants as released"] = as_released
    print_table(
        "Left out: error %, stated error %, calibration error; means over sets",
        ["", *(f"{family} ({len(names)})" for family, names in FAMILIES.items()), "eleven crowds"],
        [[way, *(cell(mean(rows, names)) for names in (*FAMILIES.values(), ELEVEN))] for way, rows in table.items()],
    )
    print(f"{time.perf_counter() - begun:.0f} s")
    pooled = table["model and votes, pooled"]
    verdicts = {name: verdict for name, (_, verdict) in runs.items()}
    warned = unwarned(votes, as_released, verdicts)
    return [*targets(votes, pooled), warned, *of_estimates(pooled, as_released, estimates), *copies()]


def show(votes: Rows, auto: Rows, estimates: Mapping[str, EstimatedError]) -> None:
    """Print every set."""
    lines = []
    for family, names in FAMILIES.items():
        for name in names:
            e = estimates[name]
            lines.append(
                [*line(name, votes[name], auto[name]), f"{100 * e.value:.0f} ({100 * e.low:.0f}-{100 * e.high:.0f})"]
            )
        value = 100 * float(np.mean([estimates[name].value for name in names]))
        lines.append([*line(f"**{family}**", mean(votes, names), mean(auto, names)), f"{value:.1f}"])
    header = ["constants as released", "votes: error", "auto: error", "stated error", "calibration error", "estimated"]
    print_table("Votes and auto on every set", header, lines)


def line(name: str, votes: Row, auto: Row) -> list[str]:
    return [name, f"{votes.error:.2f}", f"{auto.error:.2f}", f"{auto.stated:.1f}", f"{auto.calibration:.3f}"]


def cell(row: Row) -> str:
    return f"{row.error:.2f}, {row.stated:.1f}, {row.calibration:.3f}"


def targets(votes: Rows, auto: Rows) -> list[Figure]:
    """Compare left-out scores with the targets."""
    figures = []
    for family, names in FAMILIES.items():
        row = mean(auto, names)
        figures += [
            Figure(f"{family}: mean error (votes {mean(votes, names).error:.2f})", row.error, ERROR[family], unit="%"),
            Figure(f"{family}: mean calibration error", row.calibration, CALIBRATION[family]),
        ]
    default = float(np.mean([error_of_a_run(crowd(name)) for name in FAMILIES["panels"]]))
    title = "panels: mean error of cs.aggregate, which takes letters that mean nothing across items for options"
    figures.append(Figure(title, default, ERROR["panels"], unit="%"))
    above = {name: auto[name].error - votes[name].error for name in auto}
    missed = sorted((name for name in above if above[name] > ABOVE_VOTES), key=lambda name: -above[name])
    where = f" ({', '.join(f'{name} {above[name]:+.1f}' for name in missed)})" if missed else ""
    return [
        *figures,
        Figure(f"error above that of votes, at worst{where}", max(above.values()), ABOVE_VOTES, unit="%"),
        Figure("eleven crowds: mean error", mean(auto, ELEVEN).error, OF_ELEVEN, unit="%"),
    ]


def unwarned(votes: Rows, auto: Rows, verdicts: Mapping[str, str]) -> Figure:
    """Count sets on which votes are better although the verdict is "identified"."""
    worse = [name for name in auto if auto[name].error > votes[name].error + 1e-9]
    print("worse than votes:", ", ".join(f"{name} ({verdicts[name]})" for name in worse))
    quiet = sum(verdicts[name] == "identified" for name in worse)
    return Figure(f'of {len(worse)} sets on which votes are better, those with the verdict "identified"', quiet, 0)


def of_estimates(left_out: Rows, as_released: Rows, estimates: Mapping[str, EstimatedError]) -> list[Figure]:
    """Compare estimated with true errors: values left out (the stated error), intervals as released."""
    figures = []
    for family, names in FAMILIES.items():
        row = mean(left_out, names)
        title = f"{family}: mean estimated error {row.stated:.1f} %, true one {row.error:.1f} %: difference"
        figures.append(Figure(title, abs(row.stated - row.error), NEAR, unit="%"))
    each = float(np.mean([abs(row.stated - row.error) for row in left_out.values()]))
    covered = float(np.mean([e.low <= as_released[name].error / 100 <= e.high for name, e in estimates.items()]))
    return [
        *figures,
        Figure("estimated error next to the true one, mean over sets", each, NEAR_EACH, unit="%"),
        Figure(
            "sets whose error is within the interval, constants as released", 100 * covered, COVERED, up=True, unit="%"
        ),
    ]


def noisy_copies(seed: int, altered: float, K: int) -> tuple[Annotations, Codes]:
    """Draw four annotators who are right nine times in ten, and six copies of one who is right six times in ten."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, 1000)

    def changed(labels: Codes, share: float, n: int) -> Codes:
        turned = (labels[:, None] + rng.integers(1, K, (1000, n))) % K
        return np.where(rng.random((1000, n)) < share, turned, labels[:, None])

    good, weak = changed(truth, 0.1, 4), changed(truth, 0.4, 1)[:, 0]
    return Annotations.from_matrix(np.hstack([good, changed(weak, altered, 6)])), truth


def copies() -> list[Figure]:
    """Compare ``auto`` on four good annotators and six copies of a weak one with ``auto`` on the four alone."""
    figures = []
    for altered, known in ((0.0, 0), (0.1, 0), (0.25, 0), (0.1, 30), (0.25, 30)):
        loss = []
        for seed, K in itertools.product(range(3), (2, 4)):
            a, truth = noisy_copies(seed, altered, K)
            four = a.select_annotators(np.arange(10) < 4)
            if known:
                items = np.random.default_rng(seed).choice(a.n_items, known, replace=False)
                a = a.with_gold({a.items[n]: a.classes[truth[n]] for n in items})
            ours, alone = (metrics.error_rate(registry.fit("auto", some).choice.best, truth) for some in (a, four))
            loss.append(ours - alone)
        told = f", {known} known answers" if known else ""
        name = f"six copies, {altered:.0%} altered{told}: error above that of the four good annotators alone"
        figures.append(Figure(name, float(np.mean(loss)), OF_COPIES, unit="%"))
    return figures
