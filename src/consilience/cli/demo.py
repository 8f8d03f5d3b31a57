"""``consilience demo``: the main job on the table of Dawid and Skene (1979), which comes with the package."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command(name="demo")
@click.option("--out", type=click.Path(), help="Folder to write the run to.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of tables.")
def command(out: str | None, as_json: bool) -> None:
    """Estimate how fit 45 patients were for anaesthesia, from the ratings of five anaesthetists.

    The first of them rated every patient three times; all three answers are kept, as in the paper.
    """
    from consilience.cli._output import waiting
    from consilience.cli.aggregate import run_aggregate

    with waiting("loading"):
        import consilience as cs

        annotations = cs.datasets.load("dawid_skene").annotations
    run_aggregate(annotations, "auto", title="Dawid & Skene (1979)", out=out, as_json=as_json)
