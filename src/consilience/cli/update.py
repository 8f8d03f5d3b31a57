"""``consilience update``: new labels into a run, without reading the old ones again."""

from __future__ import annotations

from typing import Any

import click

from consilience.cli._help import Sectioned
from consilience.cli._input import LABELS
from consilience.cli.aggregate import reading_options

__all__ = ["command"]


@click.command(name="update", cls=Sectioned, params=list(reading_options))
@click.argument("run", type=click.Path())
@click.argument("labels", type=LABELS)
@click.option("--forget", type=float, help="Share of the past that every update takes away, from now on.")
@click.option("--window", type=int, help="Number of labels to hold, from now on; older ones are kept as sums.")
@click.option("--remember", type=int, help="Number of older labels to remember, from now on, for a second look.")
@click.option("--method", help="Continue with another method: ds-em continues from the model of any run.")
@click.option("--truth", type=click.Path(), help="File of true labels (item, label) to measure the error against.")
@click.option("--gold", type=click.Path(), help="File of known answers (item, label), which are kept as they are.")
@click.option("--out", type=click.Path(), help="Folder to write to, instead of RUN.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of tables.")
def command(
    run: str,
    labels: str,
    forget: float | None,
    window: int | None,
    remember: int | None,
    method: str | None,
    truth: str | None,
    gold: str | None,
    out: str | None,
    as_json: bool,
    encoding: str,
    **reading: Any,
) -> None:
    """Add LABELS, a table with a row for each new label, to RUN, a folder that aggregate or update wrote.

    The folder is replaced in one step, or left as it is if anything fails.
    """
    import consilience as cs
    from consilience.cli import _output
    from consilience.files import check_replaceable
    from consilience.report import render

    folder = run if out is None else out
    check_replaceable(folder, "summary.json")
    options = {name: value for name, value in reading.items() if value is not None}
    with _output.caught() as sentences:
        stream = cs.Stream.load(run, method=method, forget=forget, window=window, remember=remember)
        known = None if gold is None else cs.read_truth(gold, encoding=encoding)
        expected = None if truth is None else cs.read_truth(truth, encoding=encoding)
        before = stream.updates
        with _output.progress() as callback:
            stream.update(labels, gold=known, callback=callback, encoding=encoding, **options)
        consensus = stream.consensus
        error = {} if expected is None else {"error_rate": consensus.error_rate(expected)}
    new = stream.updates > before
    if not new:
        sentences.append(f"{labels} has no rows: nothing is new")
    notes = list(dict.fromkeys([*consensus.warnings, *sentences]))
    consensus = consensus.with_run({**consensus.run, **error, "warnings": notes})
    written = folder if new or out is not None else None
    if written is not None:
        with _output.waiting("writing the run and its report"), _output.quiet():
            stream.save(written, run=consensus, add=_output.writer(render(consensus, truth=expected)))
    _output.show_run(consensus, written, as_json=as_json)
