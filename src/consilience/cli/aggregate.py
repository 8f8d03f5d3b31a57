"""``consilience aggregate``: a file of labels in, consensus labels out."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import click

__all__ = ["command", "run_aggregate"]


_NOT_BOTH = "--edges and --item are for items; --sequence and --position for tokens in order"

#: A report holds all items in memory: it is not made of more than this that were streamed.
_MOST_REPORTED = 200_000


class _Named(NamedTuple):
    """What is known of labels before they are read: the names of their columns, where they were given."""

    origin: Any


def _columns(reading: dict[str, Any]) -> dict[str, Any]:
    return {name: reading[name] for name in ("item", "annotator", "label") if name in reading}


def _parameters(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


@click.command(name="aggregate")
@click.argument("labels", type=click.Path())
@click.option("--method", default="auto", show_default=True, help="By name; +em refines any, +hmm is for sequences.")
@click.option("--truth", type=click.Path(), help="File of true labels (item, label) to measure the error against.")
@click.option("--gold", type=click.Path(), help="File of true labels (item, label) to hold fixed.")
@click.option("--out", type=click.Path(), help="Folder for tables, model, summary and report.html.")
@click.option("--seed", default=0, show_default=True, help="Decides everything that is random.")
@click.option("--engine", default="local", show_default=True, help="Where the passes run: local, stream or dask.")
@click.option("--memory", help="With labels on disk: what this process may take, such as 2GiB; half the machine's.")
@click.option("--scheduler", help="With --engine dask: address of the scheduler; if not given, processes here.")
@click.option("--checkpoint", type=click.Path(), help="Folder that keeps what was learned, for a killed run to go on.")
@click.option(
    "--labels-format",
    type=click.Choice(["csv", "parquet"]),
    help="Of labels in --out: csv, parquet for many if not given.",
)
@click.option("--format", "format_", help="What the file is, such as csv or label-studio, if not recognised.")
@click.option("--question", help="Which question to read, where a file has answers to several.")
@click.option("--item", help="Name of the item column.")
@click.option("--annotator", help="Name of the annotator column.")
@click.option("--label", help="Name of the label column.")
@click.option("--sequence", help="Name of the sequence column: labels are of tokens in order.")
@click.option("--position", help="Name of the column with the place of a token in its sequence.")
@click.option("--valid/--any-order", default=True, help="Sequences: forbid what BIO tags rule out, or allow all.")
@click.option("--edges", type=click.Path(), help="File of edges (source, target) between items: neighbours agree.")
@click.option("--delta", type=float, help="With --edges: how strongly neighbours agree; chosen by itself if not given.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a text file.")
@click.option(
    "--duplicates",
    type=click.Choice(["last", "first", "keep", "error"]),
    default="last",
    show_default=True,
    help="When an annotator answers an item again.",
)
@click.option("--prior", type=click.Choice(["learned", "uniform"]), help="Learn the class prior, or hold it uniform.")
@click.option("--smoothing", type=float, help="Labels added to every cell of every confusion matrix.")
@click.option("--shrinkage", type=float, help="Labels added to every cell on average, spread as the crowd answers.")
@click.option("--max-iter", type=int, help="Passes over the data.")
@click.option("--tol", type=float, help="Relative change of the objective that ends the fit.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of tables.")
def command(
    labels: str,
    method: str,
    truth: str | None,
    gold: str | None,
    out: str | None,
    seed: int,
    engine: str,
    memory: str | None,
    scheduler: str | None,
    checkpoint: str | None,
    labels_format: Any,
    format_: str | None,
    question: str | None,
    item: str | None,
    annotator: str | None,
    label: str | None,
    sequence: str | None,
    position: str | None,
    valid: bool,
    edges: str | None,
    delta: float | None,
    encoding: str,
    duplicates: Any,
    prior: str | None,
    smoothing: float | None,
    shrinkage: float | None,
    max_iter: int | None,
    tol: float | None,
    as_json: bool,
) -> None:
    """Turn LABELS, a table with a row for each label or the export of an annotation tool, into consensus labels.

    Columns are recognised by name: task|item|question|id, worker|annotator|rater|judge|user and
    label|answer|response|value.  With --sequence or --position, and for CoNLL files and brat folders, the labels are of
    tokens in order; with --edges, items have neighbours.  A folder of Parquet files is streamed from disk.
    """
    import consilience as cs
    from consilience.engine.place import holds_parquet

    in_order = bool(sequence or position)
    if in_order and (edges is not None or item is not None):
        raise click.UsageError(_NOT_BOTH)
    if delta is not None and edges is None:
        raise click.UsageError("--delta needs --edges")
    parameters = _parameters(prior=prior, smoothing=smoothing, shrinkage=shrinkage, max_iter=max_iter, tol=tol)
    columns: dict[str, Any] = {"format": format_, "annotator": annotator, "label": label}
    columns |= {"duplicates": duplicates, "encoding": encoding}
    places: dict[str, Any] = {"engine": engine, "memory": memory, "scheduler": scheduler, "checkpoint": checkpoint}
    rest: tuple[Any, ...] = (method, truth, gold, out, seed, places, as_json, parameters)
    more: dict[str, Any] = {"encoding": encoding, "title": Path(labels).name, "labels_format": labels_format}
    if not in_order and edges is None and (engine == "stream" or holds_parquet(labels)):
        if question is not None:
            raise click.UsageError("--question is for exports of annotation tools, which cannot be streamed")
        run_aggregate(labels, *rest, **more, reading=_parameters(item=item, **columns))
        return
    with warnings.catch_warnings():
        # Every caution is in the summary, and printed below.
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        if in_order:
            data: Any = cs.read_sequences(labels, sequence=sequence, position=position, **columns)
        else:
            data = cs.read(labels, item=item, question=question, **columns)
        if isinstance(data, cs.SequenceAnnotations):
            parameters["valid"] = valid
            if edges is not None:
                raise click.UsageError(_NOT_BOTH)
        if edges is not None:
            parameters |= {"graph": cs.read_edges(edges, like=data, encoding=encoding), **_parameters(delta=delta)}
    run_aggregate(data, *rest, **more)


def run_aggregate(
    data: Any,
    method: str,
    truth: str | None,
    gold: str | None,
    out: str | None,
    seed: int,
    places: dict[str, Any],
    as_json: bool,
    parameters: dict[str, Any],
    *,
    encoding: str = "utf-8",
    title: str | None = None,
    labels_format: Any = None,
    reading: dict[str, Any] | None = None,
) -> None:
    """Aggregate labels, or those of a path with options for ``reading``; then write and print what was asked for."""
    import consilience as cs
    from consilience.cli import _output
    from consilience.data.coded import Origin
    from consilience.engine.streamed import StreamedConsensus
    from consilience.files import check_replaceable

    if out is not None:
        check_replaceable(out, "summary.json")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cs.exceptions.ConsilienceWarning)
        read_truth = cs.read_sequence_truth if isinstance(data, cs.SequenceAnnotations) else cs.read_truth
        like: Any = data if reading is None else _Named(Origin(**_columns(reading)))
        known = None if gold is None else read_truth(gold, encoding=encoding, like=like)
        expected = None if truth is None else read_truth(truth, encoding=encoding, like=like)
        with _output.progress() as told:
            options: dict[str, Any] = {"gold": known, "seed": seed, "reading": reading, "callback": told}
            consensus = cs.aggregate(data, method, **places, **options, **parameters)
        run = dict(consensus.run)
        if consensus.origin.read_as:
            run["read_as"] = consensus.origin.read_as
        if expected is not None:
            run["error_rate"] = consensus.error_rate(expected)
            if isinstance(consensus, cs.SequenceRun) and cs.spans.are_tags(consensus.model.classes):
                scores = consensus.span_scores(expected)
                run["spans"] = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    said = [str(w.message) for w in caught if issubclass(w.category, cs.exceptions.ConsilienceWarning)]
    run["warnings"] = list(dict.fromkeys([*run["warnings"], *said]))
    consensus = consensus.with_run(run)
    if out is not None:
        from consilience.report import save_with_report

        with _output.waiting("writing the run and its report"), warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
            if isinstance(consensus, StreamedConsensus) and run["N"] > _MOST_REPORTED:
                consensus.save(out, labels=labels_format)
            else:
                save_with_report(consensus, out, truth=expected, title=title, labels=labels_format)
    _output.show_notes(consensus.warnings)
    if as_json:
        click.echo(json.dumps(consensus.summary(), indent=2, ensure_ascii=False, default=float))
    else:
        _output.show_consensus(consensus)
        if out is not None:
            click.echo(f"\nWritten to {out}: {', '.join(sorted(file.name for file in Path(out).iterdir()))}")
