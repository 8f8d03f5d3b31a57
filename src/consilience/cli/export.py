"""``consilience export``: the labels of a run as a file for other tools."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["command"]


@click.command(name="export")
@click.argument("run", type=click.Path())
@click.option("--out", type=click.Path(), required=True, help="File to write: .csv, .parquet or .json.")
@click.option("--format", "format_", help="csv, parquet or label-studio, where the ending does not tell.")
@click.option("--source", type=click.Path(), help="Label Studio: the JSON export that the labels came from.")
@click.option("--question", help="Label Studio: which control the labels are of, where the source has several.")
@click.option("--from-name", help="Label Studio without a source: name of the control.")
@click.option("--to-name", help="Label Studio without a source: name of what it labels, and key of the item in data.")
@click.option("--type", "kind", help="Label Studio without a source: kind of control; choices unless given.")
@click.option("--model-version", help="Label Studio: what it shows as the origin of the predictions.")
def command(run: str, out: str, format_: str | None, **options: Any) -> None:
    """Write the labels of RUN, the folder of an earlier run, to a file.

    CSV and Parquet hold the table of labels; for Label Studio, tasks with predictions that can be imported, each with
    its confidence as the score.
    """
    import warnings

    import consilience as cs
    from consilience.cli import _output

    consensus = cs.load(run)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cs.exceptions.ConsilienceWarning)
        cs.write(consensus, out, format=format_, **options)
    _output.show_notes([str(w.message) for w in caught if issubclass(w.category, cs.exceptions.ConsilienceWarning)])
    click.echo(f"Written to {out}: {len(consensus.item_ids)} items")
