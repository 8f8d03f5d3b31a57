"""Frames in and out through narwhals: pandas, polars and pyarrow users get their own kind back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from shlex import quote
from typing import TYPE_CHECKING, Any

from consilience.exceptions import ColumnError, ParameterError, did_you_mean

if TYPE_CHECKING:
    from consilience.data.texts import Texts

__all__ = [
    "KINDS",
    "TRUTHS",
    "Origin",
    "columns_of",
    "find_column",
    "find_columns",
    "find_truth_column",
    "from_dataset",
    "is_frame",
    "is_long",
    "kind_of",
    "make",
    "names_of_wide",
    "no_column",
    "notes_on_columns",
    "opened",
    "suggested",
]

#: Kinds of frames that can be returned, by preference.
KINDS = ("pandas", "polars", "pyarrow")

ALIASES: Mapping[str, tuple[str, ...]] = {
    "item": ("task", "item", "question", "id"),
    "annotator": ("worker", "annotator", "rater", "judge", "user"),
    "label": ("label", "answer", "response", "value"),
    "sequence": ("sequence", "sentence", "document", "doc"),
    "position": ("position", "token", "frame", "time"),
}

#: Names of a column of known truths.
TRUTHS = ("gold", "truth", "true_label")

#: Parts of other names that suggest a role.
_HINTS = {
    "annotator": "work|annot|rater|judge|user|labell?er|coder|who|person|mail|model|author|expert|turk|review|grader",
    "label": "label|answer|response|value|class|categ|verdict|rating|score|vote|choice|decision|tag|judg|opinion|grade",
    "item": "item|task|question|(^|[ _])id$|doc|text|image|photo|unit|example|record|sample|url|post|tweet|comment",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Column names and kind of frame of the source, so that tables look the same on the way out."""

    item: str = "item"
    annotator: str = "annotator"
    label: str = "label"
    frame: str | None = None  #: "pandas", "polars" or "pyarrow"; None for data from a file
    notes: tuple[str, ...] = ()  #: what was dropped or merged on the way in, in sentences
    read_as: str = ""  #: what a file was read as, and why
    question: str = ""  #: what was asked, if an export names it
    answers: str = ""  #: the kind of answers, if an export says it: "ordinal" or "numeric"
    texts: Texts | None = field(default=None, repr=False, compare=False)  #: what the items show


def opened(frame: Any) -> Any:
    """Return a frame as one of narwhals; columns of the same name are an error, and so is what is no frame."""
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        names = list(map(str, getattr(frame, "column_names", frame.columns)))
        twice = ", ".join(sorted({repr(name) for name in names if names.count(name) > 1})[:8])
        raise ColumnError(f"more than one column of the frame is named {twice}; rename all but one") from error


def is_frame(data: Any) -> bool:
    """Return whether narwhals knows this kind of frame."""
    try:
        opened(data)
    except TypeError:
        return False
    return True


def from_dataset(data: Any) -> Any:
    """Return a data set of Hugging Face as a pyarrow table with the names of its classes; other data as it is.

    The library is not imported: its data sets are known by their methods.
    """
    if isinstance(data, dict) and data and all(_is_dataset(part) for part in data.values()):
        raise ParameterError(f"a data set with several splits; choose one of {', '.join(map(repr, data))}")
    if not _is_dataset(data):
        return data
    import pyarrow as pa

    table: pa.Table = data.with_format("arrow")[:]
    for at, name in enumerate(table.column_names):
        classes = getattr(data.features[name], "names", None)
        if classes is not None and pa.types.is_integer(table.schema.field(at).type):
            codes = [None if code is None or code < 0 else code for code in table[name].to_pylist()]
            table = table.set_column(at, name, pa.array(classes, pa.string()).take(pa.array(codes, pa.int64())))
    return table.replace_schema_metadata(None)


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.startswith("datasets.") and hasattr(data, "with_format") and hasattr(data, "features")


def columns_of(frame: Any) -> list[str]:
    """Return the names of a frame's columns."""
    import narwhals as nw

    return list(nw.from_native(frame, eager_only=True).columns)


def kind_of(frame: Any) -> str:
    """Return the library that a frame belongs to, or the default kind if it cannot be returned."""
    import narwhals as nw

    name = str(nw.from_native(frame, eager_only=True).implementation.value)
    return name if name in KINDS else default_kind()


def default_kind() -> str:
    """Return the kind of frame for data from a file: the first of ``KINDS`` that is installed."""
    return next(kind for kind in KINDS if find_spec(kind))


def make(columns: Mapping[str, Any], kind: str | None = None) -> Any:
    """Make a frame of this kind out of pyarrow or numpy columns."""
    import pyarrow as pa

    table = pa.table(dict(columns))
    kind = kind or default_kind()
    if kind == "pyarrow":
        return table
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    import pandas

    # A null must not turn integers into floats.
    gaps = {table.schema.field(i).type for i in range(table.num_columns) if table.column(i).null_count}
    # Split blocks avoid a copy of millions of rows.
    return table.to_pandas(
        split_blocks=True, types_mapper=lambda t: pandas.Int64Dtype() if t in gaps and pa.types.is_integer(t) else None
    )


def find_columns(columns: Sequence[str], given: Mapping[str, str | None], where: str) -> dict[str, str]:
    """Find the column of each role; an error about the first that is missing names the others too."""
    asked = [role for role, name in given.items() if name is None and not _usual(columns, role)]
    return {role: find_column(columns, role, name, where, asked) for role, name in given.items()}


def _usual(columns: Sequence[str], role: str) -> bool:
    return any(str(name).strip().lower() in ALIASES[role] for name in columns)


def find_column(columns: Sequence[str], role: str, given: str | None, where: str, asked: Sequence[str] = ()) -> str:
    """Find the column of a role: by the name given, or by the usual names; ``asked`` are all that have none."""
    if given is not None:
        if given not in columns:
            raise no_column(given, columns, where)
        if columns.count(given) > 1:
            raise ColumnError(f"{where} has several columns named {given!r}; rename all but one")
        return given
    for alias in ALIASES[role]:
        found = [name for name in columns if str(name).strip().lower() == alias]
        if len(found) == 1:
            return found[0]
        if found:
            what_to_do = f"say which with {role}=… (--{role} …)" if len(set(found)) > 1 else "rename all but one"
            raise ColumnError(f"{where} has several columns named {alias!r}; {what_to_do}")
    if _are_sides(columns):
        raise ColumnError(
            f"{where} compares two items in each row (its columns are {_listed(columns)}): rank them with cs.rank "
            "(consilience rank), or, for a share of wins or an audit of these judges, name the columns of the task, "
            "the judge and the winner: item=…, annotator=…, label=… (--item …)"
        )
    guess = suggested(columns)
    roles = [role, *(other for other in asked if other != role)]
    python = ", ".join(f"{each}={guess[each]!r}" if each in guess else f"{each}=…" for each in roles)
    shell = " ".join(f"--{each} {quote(str(guess[each])) if each in guess else '…'}" for each in roles)
    missing = " or ".join(filter(None, [", ".join(roles[:-1]), roles[-1]]))
    which = "which column it is" if len(roles) == 1 else "which columns they are"
    raise ColumnError(
        f"{where} has no {missing} column: looked for "
        f"{'; '.join(', '.join(ALIASES[each]) for each in roles)} among {_listed(columns)}; "
        f"say {which}{', for example' if role in guess else ''} with {python} ({shell})"
    )


def _are_sides(columns: Sequence[str]) -> bool:
    """Return whether two columns hold the two sides of a comparison."""
    called = {str(name).strip().lower() for name in columns}
    return any(called.issuperset(pair) for pair in (("left", "right"), ("model_a", "model_b"), ("item_a", "item_b")))


def notes_on_columns(columns: Sequence[str], given: Mapping[str, str | None], found: Mapping[str, str]) -> list[str]:
    """Return a note for each role whose column was recognised by name although another has as good a name."""
    notes = []
    for role, name in found.items():
        likely = [c for c in columns if str(c).strip().lower() in ALIASES[role][:2]]
        if given.get(role) is None and len(likely) > 1:
            others = ", ".join(repr(c) for c in likely if c != name)
            notes.append(
                f"{name!r} is taken as the {role}, not {others}; name the right column with {role}=… (--{role} …)"
            )
    return notes


def suggested(columns: Sequence[str], distinct: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return the column that each role may have: by a usual name, by part of its name, or as the only one left.

    ``distinct`` is the number of different values of each column, if known.  It decides where names do not: labels have
    the fewest different values, items the most.
    """
    found: dict[str, str] = {}
    rest = [str(name) for name in columns]
    for hints in ({role: f"^({'|'.join(ALIASES[role])})$" for role in _HINTS}, _HINTS):
        for role, hint in hints.items():
            near = [name for name in rest if re.search(hint, name.strip().lower())]
            if role not in found and near:
                found[role] = near[0]
                rest.remove(near[0])
    missing = [role for role in ("label", "item", "annotator") if role not in found]
    if distinct is not None:
        rest.sort(key=lambda name: distinct[name])
        for role in missing:
            if rest:
                found[role] = rest.pop(0 if role == "label" else -1)
    elif len(missing) == len(rest) == 1:
        found[missing[0]] = rest[0]
    return found


def find_truth_column(columns: Sequence[str], item: str, given: str | None, where: str) -> str:
    """Find the column of known truths: by the name given, by its usual names, or as the only one beside the item."""
    others = [name for name in columns if name != item]
    called = next((name for name in others if str(name).strip().lower() in TRUTHS), None)
    return find_column(columns, "label", given or called or (others[0] if len(others) == 1 else None), where)


def no_column(name: str, columns: Sequence[str], where: str) -> ColumnError:
    """Return the error about a column that is not there: which was probably meant, or which there are."""
    hint = did_you_mean(name, columns, f"Its columns are {_listed(columns)}")
    return ColumnError(f"{where} has no column {name!r}{hint}")


def _listed(columns: Sequence[str], most: int = 12) -> str:
    names = ", ".join(repr(str(name)) for name in columns[:most])
    return f"{names}, … ({len(columns)} in all)" if len(columns) > most else names or "(none)"


def is_long(columns: list[str]) -> bool:
    """Return whether a frame with these columns has one label per row: any of the three roles has a usual name.

    A frame that names only one role is read as a long frame with a missing column, so that the error names the column.
    """
    names = {str(name).strip().lower() for name in columns}
    return any(names.intersection(ALIASES[role]) for role in ("item", "annotator", "label"))


# ---- wide frames: a row for each item, a column for each annotator ----------------------------------------------


def names_of_wide(frame: Any) -> tuple[list[Any] | None, str, str]:
    """Return the items in the index of a wide pandas frame, and what its index and its columns are called.

    There are no items if the index just counts the rows, or in other kinds of frames.
    """
    import narwhals as nw

    index = nw.maybe_get_index(nw.from_native(frame, eager_only=True))
    if index is None:
        return None, "item", "annotator"
    if index.nlevels > 1:
        raise ColumnError(
            "the index of the frame has several levels; use frame.reset_index() and name the columns with item=…, "
            "annotator=… and label=…"
        )
    counts = index.name is None and index.dtype.kind in "iu" and index.tolist() == list(range(len(index)))
    columns = frame.columns.name
    return (None if counts else index.tolist()), str(index.name or "item"), str(columns or "annotator")
