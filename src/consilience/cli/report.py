"""``consilience report``: the HTML report of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["command"]


@click.command(name="report")
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--out", type=click.Path(), help="File to write.  [default: report.html in the folder]")
@click.option("--truth", type=click.Path(), help="File of true labels (item, label), to show errors and calibration.")
@click.option("--title", help="Heading of the page.  [default: the question, the file or the folder]")
@click.option("--items", default=30, show_default=True, help="How many of the items to look at first to list.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the file of true labels.")
def command(folder: str, out: str | None, truth: str | None, title: str | None, items: int, encoding: str) -> None:
    """Write the report of a run or a ranking, from the folder DIR that it was saved to: one HTML file, no network."""
    import consilience as cs
    from consilience.cli import _output
    from consilience.io.tables import read_truths
    from consilience.report import report

    with _output.caught() as notes:
        known: Any = None
        if cs.QuestionRuns.is_saved_in(folder):
            known = None if truth is None else read_truths(truth, encoding=encoding)
        elif truth is not None and cs.Ranking.is_saved_in(folder):
            raise click.UsageError("--truth is for runs over labels; a ranking has no truth")
        elif truth is not None:
            run: Any = cs.load(folder)
            read_truth = cs.read_sequence_truth if "sequences" in run.run else cs.read_truth
            known = read_truth(truth, encoding=encoding, like=getattr(run, "sequences", run.annotations))
        path = Path(out) if out is not None else Path(folder) / "report.html"
        with _output.waiting("writing the report"):
            report(folder, path, truth=known, title=title, items=items)
    _output.show_notes(notes)
    click.echo(f"Written to {path}")
