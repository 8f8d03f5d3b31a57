"""Whether labels show who is right, and what to label next, for all kinds of answers."""

from __future__ import annotations

import os
import warnings
from typing import Any, overload

from consilience.answers.kinds import take_answers
from consilience.api import aggregate
from consilience.data.frames import columns_of, is_frame
from consilience.diagnose import plan as _plan
from consilience.diagnose.diagnosis import Diagnosis
from consilience.diagnose.diagnosis import diagnose as _diagnose
from consilience.diagnose.plan_result import Plan
from consilience.exceptions import ConsilienceWarning, DataWarning, ParameterError, warn
from consilience.models.dawid_skene import DawidSkene
from consilience.ranking.planning import ComparisonPlan, plan_comparisons
from consilience.ranking.rank import rank
from consilience.ranking.reading import are_comparisons, holds_comparisons
from consilience.ranking.result import Ranking
from consilience.runs.consensus import Consensus
from consilience.runs.ordinal_run import OrdinalRun

__all__ = ["diagnose", "plan"]


def diagnose(
    data: Any,
    *,
    consensus: Consensus | DawidSkene | None = None,
    answers: str = "auto",
    order: Any = None,
    method: str = "auto",
    bootstrap: int | None = None,
    search: bool | None = None,
    intervals: bool = True,
    seed: int = 0,
) -> Diagnosis:
    """Diagnose whether the labels determine the model, with reasons and advice on what to collect.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, or the path of a file.
    consensus
        A consensus (or its model) of the same annotators, instead of a new fit.
    answers, order, method
        What answers mean, the levels of a scale, and the method to fit, where no consensus is given; see
        :func:`consilience.aggregate`.
    bootstrap
        Number of fits to items drawn with replacement; 0 for none.  By default 20, or none where they would take more
        than a second or two.
    search
        Whether to compute, with more than three classes, how far the confusions are from sufficiently scattered.  It is
        slow with many classes, and matters only where items have two labels at most.  By default up to six classes.
    intervals
        Whether coefficients of agreement get intervals, which are slow with many labels.
    seed
        Seed of the draws.

    Returns
    -------
    Diagnosis
        For numbers, several options and open answers, the diagnosis of their run, which has ``verdict``, ``headline``,
        ``reasons``, ``advice`` and ``to_dict``.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(500, 10, 2, labels_per_item=5, experts=0.3)
    >>> cs.diagnose(crowd.annotations)
    <Diagnosis: identified, 10 annotators, 2 classes>
    """
    if consensus is None:
        data, consensus = _without_classes(data, answers, order, method, seed)
        if isinstance(consensus, OrdinalRun):
            data = consensus.annotations  # levels in their order
    options: dict[str, Any] = {"bootstrap": bootstrap, "search": search, "intervals": intervals}
    return _diagnose(data, consensus=consensus, method=method, seed=seed, **options)


@overload
def plan(data: Ranking, budget: float) -> ComparisonPlan: ...


@overload
def plan(
    data: Any,
    budget: float,
    *,
    consensus: Consensus | None = None,
    costs: Any = None,
    capacity: Any = None,
    candidates: Any = None,
    allow_flagged: bool = False,
    gold: int = 10,
    answers: str = "auto",
    order: Any = None,
    method: str = "auto",
    seed: int = 0,
) -> Plan: ...


def plan(
    data: Any,
    budget: float,
    *,
    consensus: Consensus | None = None,
    costs: Any = None,
    capacity: Any = None,
    candidates: Any = None,
    allow_flagged: bool = False,
    gold: int = 10,
    answers: str = "auto",
    order: Any = None,
    method: str = "auto",
    seed: int = 0,
) -> Plan | ComparisonPlan:
    """Plan which annotator should label which item next, or which items to compare next.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, the path of a file, or a
        consensus that has its labels.  Items of the annotations without labels are planned too.  For comparisons, a
        :class:`consilience.Ranking`, the folder of one, or a frame or a file with left, right and winner.
    budget
        Total cost of the labels: their number, unless ``costs`` are given.  Of comparisons, their number.
    consensus
        A consensus of the same labels, to be used instead of a new one.
    costs
        Cost of a label: one number, or one for each annotator (a mapping, a frame with an annotator and a cost column,
        or an array in the order of the annotators).  1 by default.
    capacity
        Number of labels that an annotator can give, in the same forms.  Annotators who are missing from a mapping or
        frame are not asked.  Unlimited by default.
    candidates
        A frame with an item and an annotator column: the only pairs that can be asked.  All by default.
    allow_flagged
        Whether to ask annotators who are flagged as spammers or adversaries, copy each other or got worse over time.
    gold
        Number of items to suggest whose truth is worth knowing.
    answers, order, method, seed
        What answers mean, the levels of a scale, method and seed of the consensus, where none is given; see
        :func:`consilience.aggregate`.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(200, 10, 3, labels_per_item=2, seed=1)
    >>> cs.plan(crowd.annotations, budget=50)
    <Plan: 50 labels of 50 items, 0 of them to join annotators>
    """
    if (ranking := _ranking(data, seed)) is not None:
        given = {"consensus": consensus, "costs": costs, "capacity": capacity, "candidates": candidates}
        if unused := [name for name, value in given.items() if value is not None]:
            raise ParameterError(f"{unused[0]}=… is for labels; a plan of comparisons takes a budget only")
        return plan_comparisons(ranking, budget)
    if consensus is None and not isinstance(data, Consensus):
        data, consensus = _without_classes(data, answers, order, method, seed)
        data = data if consensus is None else consensus
    return _plan.plan(
        data,
        budget,
        consensus=consensus,
        costs=costs,
        capacity=capacity,
        candidates=candidates,
        allow_flagged=allow_flagged,
        gold=gold,
        method=method,
        seed=seed,
    )


def _without_classes(data: Any, answers: str, order: Any, method: str, seed: int) -> tuple[Any, Consensus | None]:
    """Return the labels, and their consensus if answers are not classes; say what they are taken for."""
    data, taken = take_answers(data, answers, method, order=order)
    for sentence in filter(None, (taken.reason, taken.hint)):
        warn(sentence, DataWarning)
    if taken.kind == "nominal":
        return data, None
    with warnings.catch_warnings():
        # diagnosis and plan are there to mend what a run would warn of
        warnings.simplefilter("ignore", ConsilienceWarning)
        return data, aggregate(data, method, answers=taken.kind, order=order, seed=seed)


def _ranking(data: Any, seed: int) -> Ranking | None:
    """Return the ranking of comparisons; None for labels."""
    if isinstance(data, Ranking):
        return data
    if isinstance(data, str | os.PathLike):
        if Ranking.is_saved_in(data):
            return Ranking.load(data)
        compared = holds_comparisons(data)
    else:
        compared = is_frame(data) and are_comparisons(columns_of(data))
    return rank(data, seed=seed) if compared else None
