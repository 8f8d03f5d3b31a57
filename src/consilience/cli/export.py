"""``consilience export``: the labels of a run as a file for other tools."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["command"]


@click.command(name="export")
@click.argument("run", type=click.Path())
@click.option("--out", type=click.Path(), required=True, help="File to write: .csv, .parquet or .json.")
@click.option("--format", help="csv, parquet or label-studio.  [default: by the ending of the file]")
@click.option("--source", type=click.Path(), help="Label Studio: the JSON export that the labels came from.")
@click.option("--question", help="Label Studio: control that the labels belong to, if the source has several.")
@click.option("--from-name", help="Label Studio without a source: name of the control.")
@click.option("--to-name", help="Label Studio without a source: name of the labelled object, and its key in data.")
@click.option("--type", "kind", help="Label Studio without a source: kind of control.  [default: choices]")
@click.option("--spreadsheet", is_flag=True, help="CSV: put an apostrophe before text that would be a formula.")
@click.option("--model-version", help="Label Studio: origin of the predictions, as it shows it.")
def command(run: str, out: str, **options: Any) -> None:
    """Write the labels of RUN, the folder of an earlier run, to a file.

    CSV and Parquet files hold the table of labels.  Files for Label Studio hold tasks with predictions, to be imported;
    the score of a prediction is its confidence.
    """
    import consilience as cs
    from consilience.cli import _output

    consensus = cs.load(run)
    with _output.caught() as notes:
        cs.write(consensus, out, **options)
    _output.show_notes(notes)
    click.echo(f"Written to {out}: {len(consensus.item_ids)} items")
