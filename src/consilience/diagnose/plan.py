"""What to label next: which annotator to ask about which item, and why.

Labels have three purposes:

* *joining*: where annotators cannot be compared, designated ones label items of others first
  (:mod:`consilience.diagnose.joining`);
* *doubt*: a label has I(truth; label | labels planned already) bits of information about its item.  The next label is
  the one with the most information for its cost.  Nobody is asked twice about an item, and the gain of a second label
  on an item is the mean over all answers that the first can give (:mod:`consilience.kernels.planning`);
* *gold*: the truth of an item shows how good its annotators are, by Σ r (1 - r) / n_m over its labels, r the
  probability that the label is right and n_m the number of labels of that annotator.

Flagged annotators are not asked, and the work is spread over the others (:mod:`consilience.diagnose.plan_people`).

Where errors correlate by ρ, the (t + 1)-th label of an item counts as

    (1 - ρ) / ((1 + t ρ) (1 + (t - 1) ρ)),

the increase of t / (1 + (t - 1) ρ), the number of independent labels that t are worth (Kish 1965).

A gain is at most the entropy of the item, so only the items of largest entropy are considered, times this factor, and
only the annotators with the largest mean gain on them: enough for ``CONSIDERED`` times the budget.  If these cannot use
it up, all are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.annotations import Annotations, entries_of
from consilience.diagnose.constants import (
    CONSIDERED,
    GAIN_SAMPLE,
    LEAST_CONSIDERED,
    MOST_WEIGHTS,
    SPARE_BUDGET,
    TYPICAL,
)
from consilience.diagnose.error_correlation import error_correlation, probability_of_dependence
from consilience.diagnose.guaranteed import Guarantees
from consilience.diagnose.joining import links
from consilience.diagnose.plan_input import asking
from consilience.diagnose.plan_people import affordable, flagged, limits, note_of
from consilience.diagnose.plan_result import Plan
from consilience.diagnose.plan_values import flagged_values, plan_values
from consilience.diagnose.runs import LATER
from consilience.exceptions import ConsilienceWarning, DataError, ParameterError
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.planning import expected_right, gains_of, mean_gains, plan_labels
from consilience.methods.base.running import run_method
from consilience.runs.annotator_table import FEW, information
from consilience.runs.consensus import Consensus
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun
from consilience.validation import check_seed

__all__ = ["Plan", "plan"]


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
    method: str = "auto",
    seed: int = 0,
) -> Plan:
    """Plan which annotator should label which item next; :func:`consilience.plan` documents the parameters.

    Labels without a consensus are taken as classes.
    """
    check_seed(seed)
    annotations, run = _labels_of(data, consensus, method, seed)
    if isinstance(run, NumericRun | MultiRun | OpenRun):
        not_asked = {} if allow_flagged else flagged_values(run)
        return plan_values(run, annotations, asking(annotations, budget, costs, capacity, candidates, not_asked), gold)
    not_asked = {} if allow_flagged else flagged(run)
    to_ask = asking(annotations, budget, costs, capacity, candidates, not_asked)
    price, left, open_to = to_ask.price, to_ask.left, to_ask.open_to
    ids, M = annotations.annotator_ids, annotations.n_annotators
    q, A = run.posterior, run.model.confusions
    doubt = -(q * np.log2(np.maximum(q, 1e-300))).sum(axis=1)
    (item, asked), reasons = _joining(annotations, run, doubt, price, left, float(budget), open_to)
    joining, gain = item.size, gains_of(q[item], A, asked)
    np.subtract.at(left, asked, 1)
    weights = _weights(annotations, run)
    value = doubt * weights[np.minimum(annotations.labels_per_item, weights.size - 1)]
    labels = affordable(annotations, price, left > 0, float(budget))
    for limit in limits(annotations, left, labels):
        for items, people in _considered(value, q, A, price, limit, labels, open_to):
            rest = float(budget) - float(price[asked].sum())
            most = limit - np.bincount(asked[joining:], minlength=M)
            able = people[most[people] > 0]
            if not able.size or rest < float(price[able].min()) - 1e-9:
                continue
            part, place = annotations.select_items(items), np.searchsorted(items, item)
            inside = items[np.minimum(place, items.size - 1)] == item
            planned = np.stack([place[inside], asked[inside]], axis=1)
            of_part, more, bits = plan_labels(
                q[items],
                A,
                part.indptr,
                part.annotator,
                _rows(open_to, items, able),
                part.labels_per_item,
                weights,
                price,
                most,
                rest,
                planned[np.lexsort(planned.T[::-1])],
            )
            item, asked = np.concatenate([item, items[of_part]]), np.concatenate([asked, more])
            gain = np.concatenate([gain, bits])
    # labels that join annotators stay first, the others are sorted by gain for their cost
    order = np.lexsort((item, np.where(np.arange(item.size) < joining, -np.inf, -gain / price[asked])))
    order[:joining] = np.arange(joining)
    item, asked, gain = item[order], asked[order], gain[order]
    now, then = _wrong(q, A, item, asked)
    accuracy = np.array(run.annotator_columns["accuracy"].fill_null(np.nan))
    accuracy[annotations.labels_per_annotator < FEW] = np.nan
    chosen, values = _gold_questions(annotations, q, gold)
    return Plan(
        item=item,
        annotator=asked,
        gain=gain,
        cost=price[asked],
        reasons=pa.concat_arrays(
            [pa.array(reasons, pa.string()), _doubts(run, item[joining:], asked[joining:], accuracy)]
        ),
        gold_items=chosen,
        gold_gains=values,
        gold_reasons=_divided(annotations, chosen),
        budget=float(budget),
        joining=joining,
        wrong_now=now,
        wrong_then=then,
        notes=[*_notes(annotations, float(budget) - float(price[asked].sum()), price), *note_of(ids, not_asked)],
        not_asked=not_asked,
        accuracy=accuracy,
        item_ids=annotations.item_ids,
        annotator_ids=ids,
        origin=annotations.origin,
        guarantees=Guarantees.of(
            run.model, annotations.n_labels / max(int((annotations.labels_per_item > 0).sum()), 1)
        ),
    )


def _labels_of(data: Any, consensus: Consensus | None, method: str, seed: int) -> tuple[Annotations, Consensus]:
    if isinstance(data, Consensus):
        data, consensus = data.annotations, data
        if data is None:
            raise DataError("the run does not hold its labels; give them too: plan(labels, budget, consensus=run)")
    annotations = as_annotations(data)
    if consensus is None:
        with warnings.catch_warnings():
            # the plan is there to mend what a run would warn of
            warnings.simplefilter("ignore", ConsilienceWarning)
            return annotations, run_method(annotations, method, seed=seed, later=LATER)
    same = annotations.n_items == len(consensus.item_ids) and annotations.item_ids == consensus.item_ids
    if not (same and annotations.annotator_ids == consensus.model.annotators):
        raise ParameterError("the consensus is of other labels than the data; give that of these labels")
    if isinstance(consensus, NumericRun | MultiRun | OpenRun):
        return consensus.annotations or annotations, consensus
    return annotations.recode(consensus.model.annotators, consensus.model.classes), consensus


def _joining(
    annotations: Annotations,
    run: Consensus,
    doubt: Floats,
    price: Floats,
    left: Ints,
    budget: float,
    open_to: tuple[Ints, Ints],
) -> tuple[Ints, list[str]]:
    """Choose labels that make annotators comparable within the budget: items and annotators, (2, n), and reasons."""
    chosen: dict[tuple[int, int], str] = {}
    room, spent = left.copy(), 0.0
    (start, who), bits = open_to, information(run.model.prior, run.model.confusions)
    for link in links(annotations, bits, doubt, left > 0):
        m = link.annotator
        allowed = budget if link.urgent else SPARE_BUDGET * budget
        for n in link.items.tolist():
            if room[m] < 1 or spent + price[m] > allowed + 1e-9:
                break
            if (n, m) in chosen or (start.size and m not in who[start[n] : start[n + 1]]):
                continue
            chosen[n, m] = link.reason
            room[m] -= 1
            spent += float(price[m])
    return np.array(list(chosen), np.int64).reshape(-1, 2).T.copy(), list(chosen.values())


def _considered(
    value: Floats, q: Floats, A: Floats, price: Floats, limit: Ints, labels: float, open_to: tuple[Ints, Ints]
) -> Iterator[tuple[Ints, Ints]]:
    """Yield items and annotators to choose from: first the most valuable ones, then all if these are not enough."""
    N, able = value.size, np.flatnonzero(limit > 0)
    if not able.size:
        return
    start, best, n = open_to[0], able, int(max(CONSIDERED * labels, LEAST_CONSIDERED))
    if start.size:  # candidates decide who can be asked
        value = np.where(np.diff(start) > 0, value, -1.0)
    items = np.sort(np.argpartition(-value, n)[:n]) if n < N else np.arange(N)
    if not start.size and items.size:
        sample = items[np.linspace(0, items.size - 1, min(GAIN_SAMPLE, items.size)).astype(np.int64)]
        best = able[np.argsort(-mean_gains(q[sample], A[able]) / price[able], kind="stable")]
        enough = int(np.searchsorted(np.cumsum(limit[best]), CONSIDERED * labels)) + 1
        best = np.sort(best[:enough])
    yield items, best
    if items.size < N or best.size < able.size:
        yield np.arange(N), able


def _rows(open_to: tuple[Ints, Ints], items: Ints, people: Ints) -> tuple[Ints, Ints]:
    """Return who can be asked about these items: the candidates, or these people about every item."""
    start, who = open_to
    if not start.size:
        return start, people
    rows, at = entries_of(start, items)
    return rows, who[at]


def _weights(annotations: Annotations, run: Consensus) -> Floats:
    """Return the information of a label next to t others, as a share of that of a single label, (T,)."""
    dependent = run.run.get("dependent")
    if dependent is None:
        dependent = probability_of_dependence(*error_correlation(annotations, run.model))
    rho = TYPICAL * dependent
    t = np.arange(MOST_WEIGHTS, dtype=np.float64)
    weights: Floats = (1.0 - rho) / ((1.0 + t * rho) * np.maximum(1.0 + (t - 1.0) * rho, 1e-9))
    weights[0] = 1.0
    return weights


def _wrong(q: Floats, A: Floats, item: Ints, asked: Ints) -> tuple[float, float]:
    """Return the expected number of wrong labels, now and after these labels."""
    now = 1.0 - q.max(axis=1)
    order = np.argsort(item, kind="stable")
    touched, first = np.unique(item[order], return_index=True)
    indptr = np.append(first, item.size).astype(np.int64)
    right = expected_right(np.ascontiguousarray(q[touched]), A, indptr, asked[order]) if item.size else np.empty(0)
    then = float(now.sum() - now[touched].sum() + (1.0 - right).sum())
    return float(now.sum()), min(then, float(now.sum()))


def _gold_questions(annotations: Annotations, q: Floats, n: int) -> tuple[Ints, Floats]:
    """Return the items whose truth is most informative about annotators, and how much."""
    if n < 1 or not annotations.n_labels:
        return np.empty(0, np.int64), np.empty(0)
    a = annotations
    item = a.item_of_label()
    r = q[item, a.label]
    share = 1.0 / np.maximum(a.labels_per_annotator, 1)
    value: Floats = np.bincount(item, r * (1.0 - r) * share[a.annotator], a.n_items).astype(np.float64)
    order = np.lexsort((np.arange(a.n_items), -value))[:n]
    order = order[value[order] > 1e-9]
    return order, value[order]


def _doubts(run: Consensus, item: Ints, asked: Ints, accuracy: Floats) -> pa.Array:
    """Return the two most probable classes of each item and how good the annotator is, in words."""
    classes, people = (pc.cast(ids.to_arrow(), pa.string()) for ids in (run.model.classes, run.model.annotators))
    q, rows = run.posterior[item], np.arange(item.size)
    parts: list[Any] = []
    for code, after in ((run.choice.best[item], "%) or "), (run.choice.second[item], "%)?")):
        parts += [classes.take(pa.array(code)), " (", _percent(q[rows, code]), after]
    doubt = pc.binary_join_element_wise(*parts, "")
    doubt = pc.if_else(pa.array(run.n_labels[item] == 0), pa.scalar("nobody has labelled it;"), doubt)
    right = pc.binary_join_element_wise(" is right ", _percent(accuracy[asked]), "% of the time", "")
    right = pc.if_else(pa.array(np.isnan(accuracy[asked])), pa.scalar(" has labelled little so far"), right)
    return pc.binary_join_element_wise(doubt, " ", people.take(pa.array(asked)), right, "")


def _percent(share: Floats) -> pa.Array:
    return pc.cast(pa.array(np.rint(100.0 * np.nan_to_num(share)).astype(np.int64)), pa.string())


def _divided(annotations: Annotations, items: Ints) -> pa.Array:
    lengths = annotations.labels_per_item[items].tolist()
    return pa.array([f"its {n} labels leave it open: the true answer shows who is wrong" for n in lengths], pa.string())


def _notes(annotations: Annotations, rest: float, price: Floats) -> list[str]:
    notes = []
    active = int((annotations.labels_per_annotator > 0).sum())
    if active < 3:
        notes.append(
            "there is only one annotator: nothing checks the labels; find two more"
            if active == 1
            else "there are only two annotators: where they differ, nothing shows who is right; find a third"
        )
    if rest >= float(price.min()) - 1e-9:
        whole = annotations.n_labels >= annotations.n_items * annotations.n_annotators
        why = "everybody has labelled all items" if whole else "no other label by those who can be asked would help"
        notes.append(f"{rest:g} of the budget is left: {why}")
    return notes
