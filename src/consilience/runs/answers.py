"""What annotators said, kept beside a run: who and what of every label, in codes, item after item."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.exceptions import FormatError
from consilience.kernels._arrays import Ints

__all__ = ["load_answers", "save_answers"]

_LABELS, _GOLD = "answers.parquet", "gold.parquet"


def save_answers(annotations: Annotations, folder: Path) -> None:
    """Write the codes of all labels, and of known truths; the names are with the run."""
    from pyarrow.parquet import write_table

    columns = {"annotator": pa.array(annotations.annotator), "label": pa.array(annotations.label)}
    write_table(pa.table(columns), folder / _LABELS, compression="zstd")
    if annotations.gold is not None:
        write_table(pa.table({"gold": pa.array(annotations.gold)}), folder / _GOLD, compression="zstd")


def load_answers(
    folder: Path, n_labels: Ints, items: Ids, annotators: Ids, classes: Ids, origin: Origin
) -> Annotations | None:
    """Read what :func:`save_answers` wrote; None where a run was saved without its labels."""
    if not (folder / _LABELS).is_file():
        return None
    who, said = _codes(folder / _LABELS, annotator=len(annotators), label=len(classes))
    gold = _codes(folder / _GOLD, gold=len(classes))[0] if (folder / _GOLD).is_file() else None
    if who.size != n_labels.sum() or (gold is not None and gold.size != len(items)):
        raise FormatError(f"{folder} is damaged: its {_LABELS} is of another run")
    indptr = np.concatenate([[0], np.cumsum(n_labels)])
    return Annotations(indptr, who, said, items=items, annotators=annotators, classes=classes, gold=gold, origin=origin)


def _codes(path: Path, **names: int) -> list[Ints]:
    """Read columns of codes, each below the number that is given for it."""
    from pyarrow.parquet import read_table

    try:
        table = read_table(path)
        columns = [np.asarray(table[name].combine_chunks()) for name in names]
    except (OSError, pa.ArrowException, KeyError) as error:
        raise FormatError(f"{path.parent} is damaged: {error}") from error
    for codes, (name, most) in zip(columns, names.items(), strict=True):
        least = -1 if name == "gold" else 0
        if codes.dtype.kind not in "iu" or (codes.size and not least <= codes.min() <= codes.max() < most):
            raise FormatError(f"{path.parent} is damaged: {path.name} names what is not there")
    return columns
