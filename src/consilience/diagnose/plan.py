"""What to label next: which annotator should be asked about which item, and why.

Three things are worth a label:

* *joining*: where annotators cannot be compared, designated ones label items of others first
  (:mod:`consilience.diagnose.joining`);
* *doubt*: a label tells I(truth; label | what is planned already) bits about its item.  The next label is always the
  one that tells most for its cost, nobody is asked twice about an item, and what a second label on an item adds is
  computed over all answers that the first can give (:mod:`consilience.kernels.planning`);
* *gold*: knowing the truth of an item tells how good its annotators are: Σ r (1 - r) / n_m over its labels, r the
  probability that the label is right and n_m the labels of that annotator.

How good somebody is, is known as far as their labels go: nobody is given more than half as many labels as they gave
before (or ten), as long as others have something to tell.

Where errors go together, the (t + 1)-th label of an item counts as

    (1 - ρ) / ((1 + t ρ) (1 + (t - 1) ρ)),

the increase of t / (1 + (t - 1) ρ), the number of independent labels that t are worth (Kish 1965).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.diagnose.error_correlation import CHANCE, CLEAR, TYPICAL, error_correlation
from consilience.diagnose.joining import links
from consilience.diagnose.runs import LATER
from consilience.exceptions import ConsilienceWarning, DataError, IdError, ParameterError
from consilience.files import atomic_file
from consilience.fitting.em import Parameters
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.planning import expected_right, gains_of, plan_labels
from consilience.methods.base.running import run_method
from consilience.runs.annotator_table import FEW, information
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import free_names

__all__ = ["Plan", "plan"]

_FORMAT = {"format": "consilience.Plan", "version": 1}
#: What is not urgent may take this share of the budget for joining.
_SPARE = 0.25
#: Labels that somebody is given, as a share of those that show how good they are.
_TRUST = 0.5
#: Labels of an item, beyond which another one counts as the last of these.
_MOST_LABELS = 1000


@dataclass(frozen=True, eq=False)
class Plan:
    """Labels to buy, with reasons, and items whose truth is worth knowing.

    ``table`` and ``gold`` are frames of the kind that the data came in.
    """

    item: Ints  #: code of the item of each label, those to join annotators first, then by gain
    annotator: Ints  #: code of who is to be asked
    gain: Floats  #: bits that the label is expected to tell about its item
    cost: Floats
    reasons: pa.Array
    gold_items: Ints  #: items whose truth tells most about annotators
    gold_gains: Floats
    gold_reasons: pa.Array
    budget: float
    joining: int  #: labels that join annotators: the first of all
    wrong_now: float  #: expected wrong labels as things are
    wrong_then: float  #: and when the plan is carried out, if the model is right
    notes: list[str]
    item_ids: Ids
    annotator_ids: Ids
    origin: Origin = field(default_factory=Origin)

    @property
    def spent(self) -> float:
        """What all labels cost."""
        return float(self.cost.sum())

    @cached_property
    def table(self) -> Any:
        """Frame with a row for each label to buy: item, annotator, reason, gain (bits), cost."""
        return _frames.make(self._columns(), self.origin.frame)

    @cached_property
    def gold(self) -> Any:
        """Frame with a row for each item whose truth is worth knowing: item, reason, gain."""
        return _frames.make(self._gold_columns(), self.origin.frame)

    def _columns(self) -> dict[str, pa.Array]:
        others = ("reason", "gain", "cost")
        item = free_names(self.origin.item, (*others, "annotator"), "item")[0]
        annotator = free_names(self.origin.annotator, (*others, item), "annotator")[0]
        columns = (
            self.item_ids.to_arrow().take(pa.array(self.item)),
            self.annotator_ids.to_arrow().take(pa.array(self.annotator)),
            self.reasons,
            pa.array(self.gain),
            pa.array(self.cost),
        )
        return dict(zip((item, annotator, *others), columns, strict=True))

    def _gold_columns(self) -> dict[str, pa.Array]:
        names = free_names(self.origin.item, ("reason", "gain"), "item")
        items = self.item_ids.to_arrow().take(pa.array(self.gold_items))
        return dict(zip(names, (items, self.gold_reasons, pa.array(self.gold_gains)), strict=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV; the file appears whole or not at all."""
        import pyarrow.csv

        with atomic_file(path) as fresh:
            pyarrow.csv.write_csv(pa.table(self._columns()), fresh)

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values, as JSON holds them."""
        return {
            **_FORMAT,
            "budget": self.budget,
            "spent": self.spent,
            "labels": int(self.item.size),
            "joining": self.joining,
            "wrong_now": self.wrong_now,
            "wrong_then": self.wrong_then,
            "notes": list(self.notes),
            "plan": _rows(self._columns()),
            "gold": _rows(self._gold_columns()),
        }

    def __len__(self) -> int:
        return int(self.item.size)

    def __repr__(self) -> str:
        items = np.unique(self.item).size
        return f"<Plan: {len(self)} labels of {items} items, {self.joining} of them to join annotators>"


def plan(
    data: Any,
    budget: float,
    *,
    consensus: Consensus | None = None,
    costs: Any = None,
    capacity: Any = None,
    candidates: Any = None,
    gold: int = 10,
    method: str = "auto",
    seed: int = 0,
) -> Plan:
    """Say which annotator should label which item next.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, the path of a file, or a
        consensus that has its labels.  Items without labels can be planned too: give them as gold-less items of the
        annotations.
    budget
        What all labels together may cost: their number, unless ``costs`` are given.
    consensus
        A consensus of the same labels, to be used instead of a new one.
    costs
        What a label costs: one number, or one for each annotator (a mapping, a frame with an annotator and a cost
        column, or an array in the order of the annotators).  1 by default.
    capacity
        How many labels an annotator can give, in the same forms.  Whom a mapping or frame does not name is not asked.
        Without it anybody can give any number.
    candidates
        A frame with an item and an annotator column: the only pairs that can be asked.  All by default.
    gold
        How many items to suggest whose truth is worth knowing.
    method, seed
        What to fit where no consensus is given.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(200, 10, 3, labels_per_item=2, seed=1)
    >>> cs.plan(crowd.annotations, budget=50)
    <Plan: 50 labels of 50 items, 0 of them to join annotators>
    """
    annotations, run = _labels_of(data, consensus, method, seed)
    if not (_is_number(budget) and np.isfinite(budget) and budget >= 0):
        raise ParameterError(f"budget must be a number ≥ 0, not {budget!r}")
    ids, M, N = annotations.annotator_ids, annotations.n_annotators, annotations.n_items
    price = _for_annotators(costs, ids, "cost", missing=None)
    price = np.ones(M) if price is None else price
    if not (np.isfinite(price).all() and (price > 0).all()):
        raise ParameterError("costs must be numbers > 0")
    room = _for_annotators(capacity, ids, "capacity", missing=0.0)
    left = np.full(M, N, np.int64) if room is None else np.minimum(np.floor(np.maximum(room, 0.0)), N).astype(np.int64)
    open_to = _open_pairs(candidates, annotations)
    q, A = run.posterior, run.model.confusions
    doubt = -(q * np.log2(np.maximum(q, 1e-300))).sum(axis=1)
    joining = _joining(annotations, run, doubt, price, left, float(budget), open_to)
    np.subtract.at(left, joining.annotator, 1)
    item, asked, gain = joining.item[:0], joining.annotator[:0], np.empty(0)
    trusted = np.maximum((_TRUST * annotations.labels_per_annotator).astype(np.int64), FEW)
    weights = _weights(annotations, run)
    for most in (np.minimum(left, trusted), left):
        held = np.concatenate([joining.item, item]), np.concatenate([joining.annotator, asked])
        rest = float(budget) - float(price[held[1]].sum())
        if rest < float(price.min()) - 1e-9:
            break
        order = np.lexsort(held[::-1])
        more = plan_labels(
            q,
            A,
            annotations.indptr,
            annotations.annotator,
            open_to,
            annotations.labels_per_item,
            weights,
            price,
            most - np.bincount(asked, minlength=M),
            rest,
            np.stack(held, axis=1)[order],
        )
        item, asked, gain = (np.concatenate(pair) for pair in zip((item, asked, gain), more, strict=True))
    best_first = np.lexsort((item, -gain / price[asked]))
    item, asked, gain = item[best_first], asked[best_first], gain[best_first]
    whole_item = np.concatenate([joining.item, item])
    whole_asked = np.concatenate([joining.annotator, asked])
    now, then = _wrong(q, A, whole_item, whole_asked)
    first = gains_of(q[joining.item], A, joining.annotator)
    chosen, values = _gold_questions(annotations, q, gold)
    return Plan(
        item=whole_item,
        annotator=whole_asked,
        gain=np.concatenate([first, gain]),
        cost=price[whole_asked],
        reasons=pa.concat_arrays([pa.array(joining.reasons, pa.string()), _doubts(run, item)]),
        gold_items=chosen,
        gold_gains=values,
        gold_reasons=_divided(annotations, chosen),
        budget=float(budget),
        joining=int(joining.item.size),
        wrong_now=now,
        wrong_then=then,
        notes=_notes(annotations, left, float(budget) - float(price[whole_asked].sum()), price),
        item_ids=annotations.item_ids,
        annotator_ids=ids,
        origin=annotations.origin,
    )


# ---- what is given ------------------------------------------------------------------------------------------------


def _labels_of(data: Any, consensus: Consensus | None, method: str, seed: int) -> tuple[Annotations, Consensus]:
    if isinstance(data, Consensus):
        data, consensus = data.annotations, data
        if data is None:
            raise DataError("the run does not hold its labels; give them too: plan(labels, budget, consensus=run)")
    annotations = as_annotations(data)
    if consensus is None:
        with warnings.catch_warnings():
            # what a run would warn of is what the plan is there to mend
            warnings.simplefilter("ignore", ConsilienceWarning)
            return annotations, run_method(annotations, method, seed=seed, later=LATER)
    same = annotations.n_items == len(consensus.item_ids) and annotations.item_ids == consensus.item_ids
    if not (same and annotations.annotator_ids == consensus.model.annotators):
        raise ParameterError("the consensus is of other labels than the data; give that of these labels")
    return annotations.recode(consensus.model.annotators, consensus.model.classes), consensus


def _for_annotators(given: Any, ids: Ids, what: str, missing: float | None) -> Floats | None:
    """Give a number for every annotator, (M,); None where nothing is given."""
    if given is None:
        return None
    M = len(ids)
    if _is_number(given):
        return np.full(M, float(given))
    if isinstance(given, Mapping):
        names, numbers = list(given), list(given.values())
    elif _frames.is_frame(given):
        import narwhals as nw

        table = nw.from_native(given, eager_only=True)
        name = _frames.find_column(table.columns, "annotator", None, f"the frame of {what}s")
        rest = [column for column in table.columns if column != name]
        column = what if what in rest else rest[0] if len(rest) == 1 else None
        if column is None:
            raise ParameterError(f"the frame of {what}s needs a column {what!r} beside {name!r}, not {rest}")
        names, numbers = table[name].to_list(), table[column].to_list()
    else:
        numbers = list(np.asarray(given, object).ravel())
        if len(numbers) != M:
            raise ParameterError(f"{what} must be one number, or one for each of {M} annotators; got {len(numbers)}")
        names = list(ids)
    try:
        values = np.array(numbers, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{what} must be numbers, not {numbers[:3]}") from None
    if np.isnan(values).any():
        raise ParameterError(f"{what} of {names[int(np.flatnonzero(np.isnan(values))[0])]!r} is missing")
    codes = _codes(ids, names)
    found = np.full(M, np.nan if missing is None else missing)
    found[codes[codes >= 0]] = values[codes >= 0]
    if np.isnan(found).any():
        absent = [str(ids[int(m)]) for m in np.flatnonzero(np.isnan(found))[:5]]
        raise ParameterError(f"no {what} is given for {', '.join(absent)}; give one for every annotator")
    if names and (codes < 0).all():
        raise IdError(f"none of the annotators with a {what} gave labels: {', '.join(map(repr, names[:5]))}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _codes(ids: Ids, names: Any) -> Ints:
    """Find names among ids; text finds numbers that look the same, as in a file."""
    try:
        codes = ids.codes_of(names)
    except (pa.ArrowException, TypeError, ValueError):
        codes = np.full(len(names), -1)
    if (codes < 0).all():
        place = {str(name): code for code, name in enumerate(ids)}
        codes = np.array([place.get(str(name), -1) for name in names], np.int64)
    return np.asarray(codes, np.int64)


def _open_pairs(candidates: Any, annotations: Annotations) -> tuple[Ints, Ints]:
    """Give who can be asked about each item, as compressed rows; two empty arrays for everybody."""
    nothing = np.empty(0, np.int64)
    if candidates is None:
        return nothing, nothing
    import narwhals as nw

    table = nw.from_native(candidates, eager_only=True)
    origin, codes = annotations.origin, []
    for role, ids, own in (
        ("item", annotations.item_ids, origin.item),
        ("annotator", annotations.annotator_ids, origin.annotator),
    ):
        name = own if own in table.columns else None
        codes.append(_codes(ids, table[_frames.find_column(table.columns, role, name, "the candidates")].to_list()))
    item, annotator = codes
    known = (item >= 0) & (annotator >= 0)
    item, annotator = item[known], annotator[known]
    order = np.lexsort((annotator, item))
    start = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=annotations.n_items))]).astype(np.int64)
    return start, annotator[order]


# ---- parts of the plan ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Joining:
    item: Ints
    annotator: Ints
    reasons: list[str]


def _joining(
    annotations: Annotations,
    run: Consensus,
    doubt: Floats,
    price: Floats,
    left: Ints,
    budget: float,
    open_to: tuple[Ints, Ints],
) -> _Joining:
    """Buy the labels that make annotators comparable, as far as the budget goes."""
    item: list[int] = []
    asked: list[int] = []
    reasons: list[str] = []
    room, spent, seen = left.copy(), 0.0, set[tuple[int, int]]()
    bits = information(run.model.prior, run.model.confusions)
    for link in links(annotations, bits, doubt, left > 0):
        m = link.annotator
        allowed = budget if link.urgent else _SPARE * budget
        for n in link.items.tolist():
            if room[m] < 1 or spent + price[m] > allowed + 1e-9:
                break
            if (n, m) in seen or not _is_open(open_to, n, m):
                continue
            seen.add((n, m))
            item.append(n)
            asked.append(m)
            reasons.append(link.reason)
            room[m] -= 1
            spent += float(price[m])
    return _Joining(np.array(item, np.int64), np.array(asked, np.int64), reasons)


def _is_open(open_to: tuple[Ints, Ints], n: int, m: int) -> bool:
    start, who = open_to
    return start.size == 0 or bool((who[start[n] : start[n + 1]] == m).any())


def _weights(annotations: Annotations, run: Consensus) -> Floats:
    """Give what a label tells beside t others, as a share of what it tells alone, (T,)."""
    measured = run.run.get("error_correlation")
    if measured is None:
        measured = error_correlation(annotations, Parameters(run.model.prior, run.model.confusions))
    rho = TYPICAL * float(np.clip((measured - CHANCE) / (CLEAR - CHANCE), 0.0, 1.0))
    t = np.arange(_MOST_LABELS, dtype=np.float64)
    weights: Floats = (1.0 - rho) / ((1.0 + t * rho) * np.maximum(1.0 + (t - 1.0) * rho, 1e-9))
    weights[0] = 1.0
    return weights


def _wrong(q: Floats, A: Floats, item: Ints, asked: Ints) -> tuple[float, float]:
    """Give the expected number of wrong labels now and after these labels."""
    now = 1.0 - q.max(axis=1)
    order = np.argsort(item, kind="stable")
    touched, first = np.unique(item[order], return_index=True)
    indptr = np.append(first, item.size).astype(np.int64)
    right = expected_right(np.ascontiguousarray(q[touched]), A, indptr, asked[order]) if item.size else np.empty(0)
    then = float(now.sum() - now[touched].sum() + (1.0 - right).sum())
    return float(now.sum()), min(then, float(now.sum()))


def _gold_questions(annotations: Annotations, q: Floats, n: int) -> tuple[Ints, Floats]:
    """Find the items whose truth tells most about annotators, and how much."""
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


# ---- words ----------------------------------------------------------------------------------------------------------


def _doubts(run: Consensus, item: Ints) -> pa.Array:
    """Say of each item what it is between."""
    classes = pc.cast(run.model.classes.to_arrow(), pa.string())
    q, rows = run.posterior[item], np.arange(item.size)
    parts: list[Any] = ["undecided: "]
    for code, after in ((run.choice.best[item], " %) or "), (run.choice.second[item], " %)")):
        share = pc.cast(pa.array(np.rint(100.0 * q[rows, code]).astype(np.int64)), pa.string())
        parts += [classes.take(pa.array(code)), " (", share, after]
    said = pc.binary_join_element_wise(*parts, "")
    return pc.if_else(pa.array(run.n_labels[item] == 0), pa.scalar("nobody has labelled it"), said)


def _divided(annotations: Annotations, items: Ints) -> pa.Array:
    lengths = annotations.labels_per_item[items].tolist()
    return pa.array([f"its {n} labels leave it open: the answer tells who of them errs" for n in lengths], pa.string())


def _notes(annotations: Annotations, left: Ints, rest: float, price: Floats) -> list[str]:
    notes = []
    active = int((annotations.labels_per_annotator > 0).sum())
    if active < 3:
        notes.append(
            "there is only one annotator: nothing checks the labels; find two more"
            if active == 1
            else "there are only two annotators: where they differ nothing shows who is right; find a third"
        )
    if rest >= float(price.min()) - 1e-9:
        notes.append(f"{rest:g} of the budget is left: no label that can be had would tell anything more")
    return notes


def _rows(columns: dict[str, pa.Array]) -> list[dict[str, Any]]:
    values = [
        [x if x is None or isinstance(x, str | int | float) else str(x) for x in column.to_pylist()]
        for column in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
