"""``consilience update``: new labels into a run, without reading the old ones again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import click

from consilience.cli.aggregate import command as aggregate

__all__ = ["command"]

_READING = ("format_", "question", "item", "annotator", "label", "encoding", "duplicates")


@click.command(name="update", params=[option for option in aggregate.params if option.name in _READING])
@click.argument("run", type=click.Path())
@click.argument("labels", type=click.Path())
@click.option("--forget", type=float, help="Share of the past that every update takes away, from now on.")
@click.option("--window", type=int, help="Labels that are held as they are, from now on; the rest is kept in sums.")
@click.option("--remember", type=int, help="Labels in sums that are remembered, from now on, to be looked at again.")
@click.option("--method", help="Go on with another method: ds-em goes on from the model of any run.")
@click.option("--truth", type=click.Path(), help="File of true labels (item, label) to measure the error against.")
@click.option("--gold", type=click.Path(), help="File of true labels (item, label) to hold fixed.")
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
    format_: str | None,
    encoding: str,
    **reading: Any,
) -> None:
    """Take LABELS, a table with a row for each new label, into RUN, a folder that aggregate or update wrote.

    The folder is replaced in one step, or left as it is when anything fails.
    """
    from dataclasses import replace

    import consilience as cs
    from consilience.cli import _output
    from consilience.files import check_replaceable

    target = run if out is None else out
    check_replaceable(target, "summary.json")
    options = {name: value for name, value in {**reading, "format": format_}.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cs.exceptions.ConsilienceWarning)
        stream = cs.Stream.load(run, method=method, forget=forget, window=window, remember=remember)
        known = None if gold is None else cs.read_truth(gold, encoding=encoding)
        expected = None if truth is None else cs.read_truth(truth, encoding=encoding)
        before = stream.updates
        with _output.progress() as told:
            stream.update(labels, gold=known, callback=told, encoding=encoding, **options)
        consensus, new = stream.consensus, stream.updates > before
        error = None if expected is None else consensus.error_rate(expected)
    said = [str(w.message) for w in caught if issubclass(w.category, cs.exceptions.ConsilienceWarning)]
    story = {**consensus.run, "warnings": list(dict.fromkeys([*consensus.run["warnings"], *said]))}
    if error is not None:
        story["error_rate"] = error
    if not new:
        story["warnings"] = [*story["warnings"], f"{labels} has no rows: nothing is new"]
    consensus = replace(consensus, run=story)
    if new or out is not None:
        from consilience.report import render

        with _output.waiting("writing the run and its report"), warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
            page = render(consensus, truth=expected)
            stream.save(target, run=consensus, add=lambda fresh: (fresh / "report.html").write_text(page, "utf-8"))
    _output.show_notes(consensus.warnings)
    if as_json:
        click.echo(json.dumps(consensus.summary(), indent=2, ensure_ascii=False, default=float))
    else:
        _output.show_consensus(consensus)
        if new or out is not None:
            click.echo(f"\nWritten to {target}: {', '.join(sorted(file.name for file in Path(target).iterdir()))}")
