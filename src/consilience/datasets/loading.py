"""Loading the sets of the catalogue from the user's own copy, and checking that it is the copy that was tested.

Apart from the bundled table of 1979, the files are expected in the folder that the environment variable
``CONSILIENCE_DATA`` names: one folder for each set, with the names of the catalogue.
"""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations, Origin
from consilience.data.frames import find_column
from consilience.data.ids import to_column
from consilience.datasets.catalogue import CATALOGUE, CROWD_KINDS, CrowdName, DatasetInfo
from consilience.exceptions import DataError, DataWarning, FormatError, ParameterError, did_you_mean

__all__ = ["VARIABLE", "Crowd", "info", "load", "names", "path", "unknown"]

#: The environment variable that names the folder of data.
VARIABLE = "CONSILIENCE_DATA"

_BUNDLED = Path(__file__).parent
_ZIP_ERRORS = zipfile.BadZipFile, zlib.error

_WORDS = {
    "N": "items (N)",
    "M": "annotators (M)",
    "K": "classes (K)",
    "labels": "labels",
    "dup_pairs": "repeated labels (dup_pairs)",
    "truth": "truths (truth)",
    "truth_with_labels": "truths of labelled items (truth_with_labels)",
}


class Crowd(NamedTuple):
    """Labels and, where known, the truth."""

    annotations: Annotations
    #: the class of every item; unknown is -1 (numbers from 0) or None (other classes); no array if the set has no truth
    truth: np.ndarray[Any, Any] | None


def names() -> tuple[str, ...]:
    """Return the names of all sets of the catalogue."""
    return tuple(CATALOGUE)


def info(name: str) -> DatasetInfo:
    """Return what is known about a set: source, licence, counts, files."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    hint = did_you_mean(name, CATALOGUE, f"The data sets are {', '.join(CATALOGUE)}")
    raise ParameterError(f"there is no data set {name!r}{hint}")


def path(name: str) -> Path:
    """Return the folder that holds the files of a set; ``info(name).files`` names them."""
    about = info(name)
    if about.bundled:
        return _BUNDLED
    root = os.environ.get(VARIABLE)
    if not root:
        raise _absent(about, f"the environment variable {VARIABLE} is not set")
    folder = Path(root).expanduser() / name
    if not folder.is_dir():
        raise _absent(about, f"there is no folder {folder}")
    return folder


def unknown() -> tuple[str, ...]:
    """Return the folders of data that are not in the catalogue; none if ``CONSILIENCE_DATA`` is not set."""
    root = Path(os.environ.get(VARIABLE) or os.devnull).expanduser()
    folders = (file.parent.name for file in root.glob("*/PROVENANCE.md"))
    return tuple(sorted(name for name in folders if name not in CATALOGUE))


@overload
def load(name: CrowdName) -> Crowd: ...
@overload
def load(name: str) -> Crowd | dict[str, Any]: ...
def load(name: str) -> Crowd | dict[str, Any]:
    """Load a set of the catalogue and check its counts.

    Parameters
    ----------
    name
        One of :func:`names`.

    Returns
    -------
    Crowd or dict
        ``annotations, truth`` for the kinds with one label from a fixed set of classes ("crowd", "timed crowd",
        "scale", "labelling functions", "language models").  For other kinds the parts by name: a pyarrow table for
        each CSV file, a numpy array for each member of an ``.npz`` file.

    Raises
    ------
    DataError
        The files are not there; the message says where they come from.
    FormatError
        A file cannot be read, or is not the one of the catalogue.
    """
    about, folder = info(name), path(name)
    return _load_crowd(about, folder) if about.kind in CROWD_KINDS else _load_parts(about, folder)


def _load_crowd(about: DatasetInfo, folder: Path) -> Crowd:
    file = _find(about, folder, about.files[0])
    item, annotator, label = _read_columns(file, item="task", annotator="worker", label="label")
    # checked first: an empty file is another error than one that cannot be used
    _check(about, file, {"labels": len(label)})
    # repeats, and truths of unlabelled items, are known facts of the set: checked below, no warning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        annotations = Annotations.from_columns(
            item,
            annotator,
            label,
            duplicates=about.duplicates,
            origin=Origin(item="task", annotator="worker", label="label"),
            where=str(file),
            untyped=True,
        )
    found = {"N": annotations.n_items, "M": annotations.n_annotators, "K": annotations.n_classes}
    pairs = np.unique(annotations.item_of_label() * annotations.n_annotators + annotations.annotator).size
    _check(about, file, {**found, "dup_pairs": len(label) - pairs})
    if not about.counts["truth"]:
        return Crowd(annotations, None)

    file = _find(about, folder, about.files[1])
    item, label = _read_columns(file, item="task", label="label")
    _check(about, file, {"truth": len(label)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        codes = annotations.codes_of_truth(pa.table({"task": item, "label": label}), str(file))
    known = codes >= 0
    _check(about, file, {"truth_with_labels": int(known.sum())})
    numbers = annotations.classes.dtype.kind in "iu" and annotations.classes.min() >= 0
    truth = np.full(codes.size, -1 if numbers else None, annotations.classes.dtype if numbers else object)
    truth[known] = annotations.classes[codes[known]]
    return Crowd(annotations, truth)


def _load_parts(about: DatasetInfo, folder: Path) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    home: dict[str, Path] = {}
    for name in about.files:
        file = _find(about, folder, name)
        inside = _read_arrays(file) if name.endswith(".npz") else {name.split(".")[0]: _read_table(file)}
        parts.update(inside)
        home.update(dict.fromkeys(inside, file))
    for part, axes in about.shapes.items():
        if part not in parts:
            raise FormatError(f"{folder} is not the set {about.name!r} of the catalogue: it has no {part!r}")
        # a missing axis counts as empty
        _check(about, home[part], dict(zip(axes, (*parts[part].shape, 0), strict=False)))
    return parts


# ---- files ----------------------------------------------------------------------------------------------


def _find(about: DatasetInfo, folder: Path, name: str) -> Path:
    """Return a file of the set, compressed or not."""
    other = name.removesuffix(".gz") if name.endswith(".gz") else f"{name}.gz"
    for file in (folder / name, folder / other):
        if file.is_file():
            return file
    raise _absent(about, f"there is no file {folder / name}")


def _read_columns(file: Path, **roles: str) -> list[pa.Array]:
    """Read these columns as text; whether ids are numbers is decided later, for all rows together."""
    table = _read_table(file, dict.fromkeys(roles.values(), pa.string()))
    return [
        to_column(table[find_column(table.column_names, role, column, str(file))], column)
        for role, column in roles.items()
    ]


def _read_table(file: Path, types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    from pyarrow import csv

    try:
        table = csv.read_csv(str(file), convert_options=csv.ConvertOptions(column_types=types))
        header = table.column_names  # decoded here: invalid UTF-8 is an error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error
    if len(set(header)) < len(header):
        raise FormatError(f"{file} names a column twice in its header: {', '.join(header)}")
    return table


def _read_arrays(file: Path) -> dict[str, Any]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    # the archive, its compression and the arrays inside raise errors of their own
    except (OSError, ValueError, TypeError, LookupError, EOFError, NotImplementedError, *_ZIP_ERRORS) as error:
        raise _unreadable(file, error) from error


# ---- errors ---------------------------------------------------------------------------------------------


def _check(about: DatasetInfo, file: Path, found: Mapping[str, int]) -> None:
    for count, value in found.items():
        if value != about.counts[count]:
            raise FormatError(
                f"{file} is not the file of the catalogue: it has {value} {_WORDS.get(count, count)}, "
                f"the catalogue says {about.counts[count]}. The set {about.name!r} comes from {about.source}"
            )


def _unreadable(file: Path, error: Exception) -> FormatError:
    return FormatError(f"cannot read {file}: {error}; the file is damaged or cut short, fetch it again")


def _absent(about: DatasetInfo, why: str) -> DataError:
    columns = "; labels have the columns task,worker,label and truth task,label" if about.kind in CROWD_KINDS else ""
    return DataError(
        f"the data set {about.name!r} is not here: {why}. It comes from {about.source}. Put its files "
        f"({', '.join(about.files)}{columns}) into a folder named {about.name!r}, and set {VARIABLE} "
        "to the folder that holds this one"
    )
