"""One function: comparisons in, a ranking out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.exceptions import ConvergenceWarning, FewLabelsWarning, ParameterError, warn
from consilience.ranking.comparisons import Comparisons, from_frame
from consilience.ranking.fit import fit
from consilience.ranking.result import Ranking
from consilience.ranking.tables import close_pairs
from consilience.ranking.uncertainty import rank_intervals, uncertainty
from consilience.validation import check_parameters, number, whole

__all__ = ["rank"]

#: Spreads below this, and above its inverse, are beyond the accuracy of the fit.
_LEAST_SPREAD = 1e-6


def rank(
    comparisons: Any,
    *,
    left: str | None = None,
    right: str | None = None,
    worker: str | None = None,
    winner: str | None = None,
    task: str | None = None,
    left_length: str | None = None,
    right_length: str | None = None,
    judges: bool = True,
    position: bool = True,
    length: bool = True,
    spread: float | None = None,
    max_iter: int = 100,
    tol: float = 1e-3,
    seed: int = 0,
    format: str | None = None,  # noqa: A002 - as in read
    encoding: str = "utf-8",
    question: str | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> Ranking:
    """Rank items by pairwise comparisons: Bradley-Terry with ties, and judges of different reliability.

    Parameters
    ----------
    comparisons
        A frame with a row for each comparison, or the path of a file: a table, MT-Bench judgments, AlpacaEval
        annotations, or an export of Label Studio (pairwise, ranker) or Argilla (ranking).  Columns of a table are
        ``left`` and ``right`` (the items), ``worker`` (who compared them) and ``winner``: "left", "right", "tie", or
        the name of the item that won.  Columns ``left_length`` and ``right_length`` hold the lengths of the texts,
        ``task`` what was compared (a question).
    left, right, worker, winner, task, left_length, right_length
        Names of the columns, unless they have their usual names; for Label Studio, of the fields of ``data`` that hold
        the two items.
    judges
        Whether judges differ in reliability and leanings; otherwise all count the same.
    position, length
        Whether the side, and the length of a text, may influence judges.  Scores are those without such effects.
    spread
        Standard deviation of the normal prior of scores; learned if it is None.
    max_iter, tol
        Limit of the rounds, and the relative change that ends them.
    seed
        Seed of the draws behind the intervals of ranks, and of the consensus of pairs.
    format, encoding
        Of a file, as for :func:`consilience.read`.
    question
        Which question to read, if an export has several that compare items.
    callback
        Called after each round with its number and the log-posterior.

    Examples
    --------
    >>> import consilience as cs
    >>> drawn = cs.datasets.simulate_comparisons(20, 5, 1000)
    >>> cs.rank(drawn.comparisons)
    <Ranking: 20 items, 1000 comparisons, 5 judges>
    """
    begun = time.perf_counter()
    check_parameters({"max_iter": max_iter, "tol": tol, "callback": callback})
    number("spread", spread, none=True)
    if spread is not None and not _LEAST_SPREAD <= spread <= 1 / _LEAST_SPREAD:
        raise ParameterError(f"spread must be between {_LEAST_SPREAD:g} and {1 / _LEAST_SPREAD:g}, not {spread:g}")
    whole("seed", seed, least=0)
    for name, flag in (("judges", judges), ("position", position), ("length", length)):
        if not isinstance(flag, bool | np.bool_):
            raise ParameterError(f"{name} must be True or False, not {flag!r}")
    given = {
        "left": left, "right": right, "worker": worker, "winner": winner, "task": task, "left_length": left_length,
        "right_length": right_length,
    }  # fmt: skip
    data = _comparisons(comparisons, given, format, encoding, question)
    options: dict[str, Any] = {"judges": judges, "position": position, "length": length, "spread": spread}
    found = fit(data, **options, max_iter=int(max_iter), tol=tol, callback=callback)
    notes = [*data.origin.notes, *found.notes]
    if not found.converged:
        notes.append(f"the fit did not converge in {max_iter} rounds; allow more with max_iter=… (--max-iter …)")
        warn(notes[-1], ConvergenceWarning)
    n_groups, group = data.groups
    if n_groups > 1:
        sentence = f"the items fall into {n_groups} groups that were never compared with each other"
        warn(f"{sentence}; scores and ranks hold within a group", FewLabelsWarning)
    scores = found.model.scores
    spreads = uncertainty(data, found)
    low, high = rank_intervals(scores, spreads, group, seed)
    run = {
        "seed": seed,
        "seconds": time.perf_counter() - begun,
        "log_posterior": found.history[-1] if found.history else None,
        "converged": found.converged,
        "iterations": len(found.history),
        "parameters": {name: value for name, value in options.items() if value is not True and value is not None},
        "notes": notes,
    }
    run["run"] = [*run, "run"]
    judge_deviations = np.sqrt(np.maximum(found.information.judge_variances, 0.0))
    close = close_pairs(scores, group, spreads)
    return Ranking(data, found.model, spreads.deviation, judge_deviations, low, high, close, run)


def _comparisons(
    data: Any, given: dict[str, str | None], form: str | None, encoding: str, question: str | None
) -> Comparisons:
    if isinstance(data, Comparisons):
        return data
    if isinstance(data, str | os.PathLike):
        from consilience.ranking.reading import read_comparisons

        return read_comparisons(data, given, form, encoding, question)
    return from_frame(data, given)
