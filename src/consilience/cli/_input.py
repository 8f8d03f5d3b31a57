"""The argument LABELS of the verbs: a path, or ``-`` for standard input."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

__all__ = ["LABELS", "LABELS_OR_RANKING"]

#: Ending of the file that standard input is kept in, by its first bytes; other bytes are text.
_ENDINGS = {b"PAR1": ".parquet", b"PK": ".zip", b"\x93NUMPY": ".npy", b"\x1f\x8b": ".txt.gz"}
_ENDINGS |= {b"[": ".json", b"{": ".json"}


class _Labels(click.Path):
    """A path; ``-`` is standard input, kept in a temporary file: labels are read after the format is recognised."""

    def __init__(self, rankings: bool = False) -> None:
        super().__init__()
        self.rankings = rankings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value != "-" or ctx is None:
            if not self.rankings and _holds_ranking(value):
                self.fail(
                    f"{value} holds a ranking, not labels. Its tables say what is open (indistinguishable.csv), and "
                    "consilience plan what to compare next",
                    param,
                    ctx,
                )
            if _holds_run(value):
                self.fail(
                    f"{value} is the folder of a run. Name the file of labels that it was made from; report, export "
                    "and update use the run itself",
                    param,
                    ctx,
                )
            return super().convert(value, param, ctx)
        stream = sys.stdin.buffer
        first = stream.read(512)
        begins = first.removeprefix(b"\xef\xbb\xbf").lstrip()
        ending = next((ending for sign, ending in _ENDINGS.items() if begins.startswith(sign)), ".txt")
        place = Path(ctx.with_resource(tempfile.TemporaryDirectory(prefix="consilience-"))) / f"stdin{ending}"
        with place.open("wb") as file:
            file.write(first)
            shutil.copyfileobj(stream, file, 1 << 20)
        if ending == ".zip" and b"xl/workbook.xml" in place.read_bytes():
            place = place.rename(place.with_suffix(".xlsx"))
        return str(place)


def _holds_run(value: Any) -> bool:
    return (Path(value) / "summary.json").is_file() and (Path(value) / "annotators.csv").is_file()


def _holds_ranking(value: Any) -> bool:
    if not (Path(value) / "comparisons.parquet").is_file():
        return False
    from consilience.ranking.result import Ranking

    return Ranking.is_saved_in(value)


LABELS, LABELS_OR_RANKING = _Labels(), _Labels(rankings=True)
