"""Pairwise comparisons as codes: who compared what with what, and which side won.

======== ======================================================================= ===============
name     meaning                                                                 shape
======== ======================================================================= ===============
first    the item of the pair that comes first in the order of ids               (C,) int32
second   the other one                                                           (C,) int32
judge    who compared them                                                       (C,) int32
side     1 if ``first`` was on the left, -1 if it was on the right               (C,) int8
outcome  1 if ``first`` won, -1 if ``second`` won, 0 for a tie                   (C,) int8
length   advantage of ``first`` by its length, from -1 to 1; empty if not given    (C,) or (0,)
task     what they were compared for (a question, a prompt); empty if not given  (C,) or (0,)
weight   how much a comparison counts; empty if all count once                   (C,) or (0,)
======== ======================================================================= ===============

Rows are sorted by all of these, so that their order in a file or frame changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.frames import ALIASES, Origin, columns_of, is_frame, kind_of
from consilience.data.ids import Ids, encode, joined, name_rows, numbers_where_all_are, to_column
from consilience.data.truth import arrow_or_values
from consilience.exceptions import ColumnError, DataError, DataWarning, IdError, warn
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.kernels.comparisons import Passes

__all__ = ["ROLES", "Comparisons", "find_columns", "from_columns", "from_frame", "length_advantage"]

#: Recognised names of the columns, in lower case.
ROLES: Mapping[str, tuple[str, ...]] = {
    "left": ("left", "item_a", "model_a", "model_1", "generator_1", "a"),
    "right": ("right", "item_b", "model_b", "model_2", "generator_2", "b"),
    "worker": ALIASES["annotator"],
    "winner": ("winner", "preference", "choice", *ALIASES["label"]),
    "task": ("task", "question_id", "question", "prompt"),
    "left_length": ("left_length", "length_left", "length_a", "length_1"),
    "right_length": ("right_length", "length_right", "length_b", "length_2"),
}
_REQUIRED = ("left", "right", "winner")

#: Words for the outcome, in lower case; a winner that is the name of an item always means that item.
_LEFT = ("left", "a", "model_a", "model_1", "first", "1", "1.0", ">")
_RIGHT = ("right", "b", "model_b", "model_2", "second", "2", "2.0", "-1", "-1.0", "<")
_TIE = ("tie", "draw", "equal", "both", "none", "neither", "0", "0.0", "1.5", "inconsistent", "=")
_WORDS = {**dict.fromkeys(_LEFT, 1), **dict.fromkeys(_RIGHT, -1), **dict.fromkeys(_TIE, 0)}
#: "tie (bothbad)" and the like.
_BEGINS_TIE = "tie ("

_UNKNOWN = 2


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of items by judges; the module describes the arrays."""

    first: Codes
    second: Codes
    judge: Codes
    side: Codes
    outcome: Codes
    length: Floats
    task: Codes
    item_lengths: Floats  #: mean log-length of the texts of every item; empty if no lengths are given, (N,) or (0,)
    item_ids: Ids
    judge_ids: Ids
    task_ids: Ids
    origin: Origin = field(default_factory=Origin)
    weight: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def n_comparisons(self) -> int:
        """Number of comparisons, C."""
        return int(self.first.size)

    @property
    def n_items(self) -> int:
        """Number of items, N."""
        return len(self.item_ids)

    @property
    def n_judges(self) -> int:
        """Number of judges, M."""
        return len(self.judge_ids)

    @cached_property
    def passes(self) -> Passes:
        """The passes over these comparisons."""
        data = self.first, self.second, self.judge, self.side, self.outcome, self.length, self.weight
        return Passes(*data, self.n_items, self.n_judges)

    @cached_property
    def judge_shares(self) -> Floats:
        """The share of the comparisons that each judge made, (M,)."""
        return np.asarray(np.bincount(self.judge, minlength=self.n_judges) / self.n_comparisons)

    @cached_property
    def pair(self) -> tuple[Ints, Ints]:
        """Where each distinct pair begins among the comparisons, (P + 1,), and the pair of each comparison, (C,)."""
        new = np.ones(self.n_comparisons, np.bool_)
        new[1:] = (np.diff(self.first) != 0) | (np.diff(self.second) != 0)
        starts = np.append(np.flatnonzero(new), self.n_comparisons)
        return starts, np.cumsum(new) - 1

    @cached_property
    def groups(self) -> tuple[int, Ints]:
        """The number of groups of items that are connected by comparisons, and the group of every item.

        Group 0 is the largest.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        at = self.pair[0][:-1]
        graph = coo_array((np.ones(at.size), (self.first[at], self.second[at])), shape=(self.n_items, self.n_items))
        n, label = connected_components(graph, directed=False)
        order = np.argsort(-np.bincount(label, minlength=n), kind="stable")
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        return int(n), place[label]

    def tally(self) -> tuple[Ints, Ints, Ints]:
        """Return the wins, losses and ties of every item."""
        N, o = self.n_items, self.outcome
        win, lose, tie = o == 1, o == -1, o == 0
        one, two = self.first, self.second
        count = np.bincount
        wins = count(one[win], minlength=N) + count(two[lose], minlength=N)
        losses = count(one[lose], minlength=N) + count(two[win], minlength=N)
        return wins, losses, count(one[tie], minlength=N) + count(two[tie], minlength=N)

    def subset(self, rows: Bools | Ints) -> Comparisons:
        """Return some of the comparisons, with all items and judges."""
        from dataclasses import replace

        names = ("first", "second", "judge", "side", "outcome", "length", "task", "weight")
        return replace(
            self, **{name: values[rows] if (values := getattr(self, name)).size else values for name in names}
        )

    def __repr__(self) -> str:
        return f"<Comparisons: {self.n_comparisons} of {self.n_items} items by {self.n_judges} judges>"


def find_columns(columns: Sequence[str], where: str, given: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return the name of the column of each role that there is; one of the three required ones missing is an error."""
    called = {str(name).strip().lower(): name for name in reversed(columns)}
    names: dict[str, str] = {}
    for role, aliases in ROLES.items():
        own = (given or {}).get(role)
        if own is not None and own not in columns:
            raise ColumnError(f"{where} has no column {own!r}; its columns are {', '.join(map(repr, columns))}")
        found = own or next((called[alias] for alias in aliases if alias in called), None)
        if found is not None and list(columns).count(found) > 1:
            raise ColumnError(f"{where} has several columns named {found!r}; rename all but one")
        taken = next((other for other, name in names.items() if name == found), None)
        if found is not None and taken is None:
            names[role] = found
        elif found is not None and (own or role in _REQUIRED):
            raise ColumnError(f"{where}: {found!r} is the {taken} column, so another must be the {role} column")
        elif role in _REQUIRED:
            raise ColumnError(
                f"{where} has no {role} column: looked for {', '.join(aliases)} among "
                f"{', '.join(map(repr, columns))}; say which it is with {role}=… (--{role} …)"
            )
    if ("left_length" in names) != ("right_length" in names):
        there = names.pop("left_length", None) or names.pop("right_length")
        warn(f"{where}: {there!r} has no counterpart for the other side; lengths are left out", DataWarning)
    return names


def from_frame(data: Any, given: Mapping[str, str | None] | None = None) -> Comparisons:
    """Read a frame with a row for each comparison; ``given`` names columns that are not recognised."""
    import narwhals as nw

    if not is_frame(data):
        raise DataError(
            "comparisons must be a frame (left, right, worker, winner) or the path of a file, "
            f"not {type(data).__name__}"
        )
    names = find_columns(columns_of(data), "the frame", given)
    frame = nw.from_native(data, eager_only=True)
    columns = {role: to_column(arrow_or_values(frame[name]), name) for role, name in names.items()}
    return from_columns(columns, names, "the frame", frame=kind_of(data))


def from_columns(
    columns: Mapping[str, pa.Array],
    names: Mapping[str, str],
    where: str,
    *,
    frame: str | None = None,
    untyped: bool = False,
    notes: Sequence[str] = (),
    weight: Floats | None = None,
) -> Comparisons:
    """Build comparisons from columns by role; ``untyped`` text ids that are all numbers become numbers.

    ``weight`` is how much each comparison counts, if they do not all count once.
    """
    told = list(notes)
    C = len(columns["left"])
    if C == 0:
        raise DataError(f"{where} has no rows: there is nothing to compare")
    both, items = encode(joined(columns["left"], columns["right"]))
    left, right = both[:C], both[C:]
    for role, codes in (("left", left), ("right", right)):
        rows = np.flatnonzero(codes < 0)
        if rows.size:
            raise IdError(f"{where} has no item in {name_rows(rows)} (column {names[role]!r}); a comparison needs two")
    items = numbers_where_all_are(items) if untyped else items
    outcome = _outcomes(columns["winner"], items, left, right, where, names["winner"])
    if "worker" in columns:
        judge, judges = encode(columns["worker"])
        judges = numbers_where_all_are(judges) if untyped else judges
        rows = np.flatnonzero(judge < 0)
        if rows.size:
            raise IdError(f"{where} has no judge in {name_rows(rows)} (column {names['worker']!r})")
    else:
        judge, judges = np.zeros(C, np.int32), Ids(["all"])
        told.append("there is no column of judges, so all comparisons count as those of one")
    task, tasks = (
        encode(columns["task"]) if "task" in columns else (np.empty(0, np.int32), Ids(pa.array([], pa.string())))
    )
    lengths = _lengths(columns, where, told)
    keep = (outcome != _UNKNOWN) & (left != right)
    for gone, why in ((outcome == _UNKNOWN, "have no winner"), (left == right, "compare an item with itself")):
        if gone.any():
            told.append(f"{int(gone.sum())} of {C} comparisons {why} and are left out")
    if not keep.any():
        raise DataError(f"{where}: no comparison is left; {'; '.join(told)}")
    for sentence in told:
        warn(f"{where}: {sentence}", DataWarning)
    worker = names.get("worker", "judge")
    origin = Origin(item="item", annotator=worker, label=names["winner"], frame=frame, notes=tuple(told))
    counted = np.empty(0) if weight is None or (weight == 1.0).all() else weight
    return _sorted(left, right, judge, outcome, lengths, task, counted, keep, items, judges, tasks, origin)


def _outcomes(winner: pa.Array, items: Ids, left: Codes, right: Codes, where: str, name: str) -> Codes:
    """Return 1 where the left item won, -1 the right one, 0 for a tie, ``_UNKNOWN`` without a winner."""
    codes, values = encode(winner)
    vocabulary = values.to_arrow()
    as_item = items.codes_of(vocabulary) if len(vocabulary) else np.empty(0, np.int64)
    words = [str(value).strip().lower() for value in values]
    as_word = np.array([0 if w.startswith(_BEGINS_TIE) else _WORDS.get(w, _UNKNOWN) for w in words], np.int8)
    numeric = pa.types.is_floating(vocabulary.type)
    if numeric:  # a weighted preference between 1 (left) and 2 (right)
        numbers = np.asarray(vocabulary)
        weighted = (numbers >= 1) & (numbers <= 2)
        as_word = np.where(weighted, np.sign(1.5 - numbers), as_word).astype(np.int8)
        as_item[:] = -1 if weighted.any() else as_item
    if {*words} in ({"0", "1"}, {"0.0", "1.0"}) and (as_item < 0).all():
        raise DataError(
            f"{where}: the winners are 0 and 1 (column {name!r}), and it is not clear whether 0 is a tie or the right "
            "side. Write 'left', 'right' and 'tie'"
        )
    out = np.append(as_word, np.int8(_UNKNOWN))[codes]
    by_item = np.append(as_item, -1)[codes]
    named = by_item >= 0
    out[named] = np.where(by_item == left, 1, np.where(by_item == right, -1, _UNKNOWN))[named].astype(np.int8)
    wrong = np.flatnonzero((codes >= 0) & (out == _UNKNOWN))
    if wrong.size:
        value = values[int(codes[wrong[0]])]
        raise DataError(
            f"{where}: the winner {value!r} in {name_rows(wrong)} (column {name!r}) is neither side of its comparison; "
            "expected 'left', 'right', 'tie' or the name of one of the two items"
        )
    return out


def _lengths(columns: Mapping[str, pa.Array], where: str, told: list[str]) -> tuple[Floats, Floats] | None:
    """Return the log-lengths of the left and the right texts; None if none are given or some are missing."""
    if "left_length" not in columns:
        return None
    made = []
    for role in ("left_length", "right_length"):
        try:
            column = pc.cast(columns[role], pa.float64())
        except pa.ArrowInvalid as error:
            raise DataError(f"{where}: {role.replace('_', ' ')}s must be numbers ({error})") from error
        values = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
        if not np.all(values >= 0) or np.isinf(values).any():
            told.append(f"{role.replace('_', ' ')}s are missing or negative in some rows, so lengths are left out")
            return None
        made.append(np.log1p(values))
    return made[0], made[1]


def _sorted(
    left: Codes,
    right: Codes,
    judge: Codes,
    outcome: Codes,
    lengths: tuple[Floats, Floats] | None,
    task: Codes,
    weight: Floats,
    keep: Bools,
    items: Ids,
    judges: Ids,
    tasks: Ids,
    origin: Origin,
) -> Comparisons:
    """Drop rows, code ids in ascending order, and sort the rows."""
    rows = np.flatnonzero(keep)
    left, items = _ascending(np.concatenate([left[rows], right[rows]]), items)
    left, right = left[: rows.size], left[rows.size :]
    judge, judges = _ascending(judge[rows], judges)
    outcome = outcome[rows]
    if task.size:
        task, tasks = _ascending(task[rows], tasks)
    weight = weight[rows] if weight.size else weight
    swapped = right < left
    first, second = np.where(swapped, right, left), np.where(swapped, left, right)
    side = np.where(swapped, -1, 1).astype(np.int8)
    outcome = (outcome * side).astype(np.int8)
    length = np.empty(0) if lengths is None else length_advantage(lengths[0] - lengths[1])[rows] * side
    order = _order(
        [task, length, weight], [first, second, judge, side, outcome], [len(items), len(items), len(judges), 3, 3]
    )
    item_lengths = np.empty(0)
    if lengths is not None:
        ends = np.concatenate([left[order], right[order]])
        total = np.bincount(ends, np.concatenate([values[rows][order] for values in lengths]), len(items))
        item_lengths = total / np.bincount(ends, minlength=len(items))
    columns = {"first": first, "second": second, "judge": judge, "side": side, "outcome": outcome}
    columns |= {"length": length, "task": task, "weight": weight}
    return Comparisons(
        **{name: values[order] if values.size else values for name, values in columns.items()},
        item_lengths=item_lengths,
        item_ids=items,
        judge_ids=judges,
        task_ids=tasks,
        origin=origin,
    )


def length_advantage(ratio: Any) -> Any:
    """Return tanh of the log-ratio of two lengths, (a² - b²) / (a² + b²): much longer is hardly more than longer.

    It explains the winners of the six language models that judge in alpaca_eval and pandalm better than the logarithm
    itself (mean log-loss 0.435 and 0.445), those of the three people slightly worse (0.571 and 0.562).
    """
    return np.tanh(ratio)


def _ascending(codes: Codes, ids: Ids) -> tuple[Codes, Ids]:
    """Return codes in the order of the ids, without ids that no row has."""
    used = np.zeros(len(ids), np.bool_)
    used[codes] = True
    ids, rank = ids.take(np.flatnonzero(used)).sorted()
    place = np.zeros(used.size, np.int32)
    place[used] = rank
    return place[codes], ids


def _order(last: list[Any], keys: list[Any], sizes: list[int]) -> Ints:
    """Return the order of rows by ``keys``, then by what there is of ``last``."""
    last = [values for values in last if values.size]
    if not last and float(np.prod(np.array(sizes, np.float64))) < 2**62:
        combined = np.zeros(keys[0].size, np.int64)
        for values, size in zip(keys, sizes, strict=True):
            combined = combined * size + (values + 1 if values.dtype == np.int8 else values)
        return np.argsort(combined, kind="stable")
    return np.lexsort([*reversed(last), *reversed(keys)])
