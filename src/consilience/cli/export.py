"""``consilience export``: the labels of a run as a file for other tools."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["command"]


@click.command(name="export")
@click.argument("run", type=click.Path())
@click.option("--out", type=click.Path(), required=True, help="File to write: .csv, .parquet, .xlsx, .json or .jsonl.")
@click.option(
    "--format",
    help="csv, parquet, excel, label-studio, argilla, doccano, prodigy or mturk.  [default: by source or ending]",
)
@click.option("--source", type=click.Path(), help="Tools: the export that the labels came from.")
@click.option("--question", help="Tools: question or control that the labels belong to, if the source has several.")
@click.option("--from-name", help="Without a source: name of the control or question.")
@click.option("--to-name", help="Without a source: name of the labelled object, and its key in the data.")
@click.option("--type", "kind", help="Label Studio without a source: kind of control.  [default: choices]")
@click.option("--spreadsheet", is_flag=True, help="CSV: put an apostrophe before text that would be a formula.")
@click.option("--model-version", help="Origin of the predictions, as the tool shows it.")
@click.option(
    "--reject-flagged",
    "reject",
    is_flag=True,
    help="Mechanical Turk: reject spammers and adversaries with a reason, instead of leaving their work open.",
)
def command(run: str, out: str, **options: Any) -> None:
    """Write the labels of RUN, the folder of an earlier run, to a file.

    CSV, Parquet and Excel files hold the table of labels, or the scores of a ranking.  Files for Label Studio, Argilla,
    doccano and Prodigy hold tasks with predictions, to be imported.  For Mechanical Turk, the results of a batch get an
    X in the column Approve.
    """
    import consilience as cs
    from consilience.cli import _output

    consensus = cs.Ranking.load(run) if cs.Ranking.is_saved_in(run) else cs.load(run)
    with _output.caught() as notes:
        cs.write(consensus, out, **options)
    _output.show_notes(notes)
    n_items = consensus.comparisons.n_items if isinstance(consensus, cs.Ranking) else len(consensus.item_ids)
    click.echo(f"Written to {out}: {n_items} items")
