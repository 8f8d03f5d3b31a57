"""``consilience aggregate``: a file of labels in, consensus labels out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from consilience.cli._help import READING, Sectioned
from consilience.cli._input import LABELS

__all__ = ["ANSWERS", "SEED", "command", "levels", "reading_options", "run_aggregate"]

_NOT_BOTH = "--edges and --item are for items; --sequence and --position for tokens in order"
_COLUMNS = ("item", "annotator", "label")
_NETWORK = {"graph": "edges", "must_link": "must_link", "cannot_link": "cannot_link"}
_PARAMETERS = (
    "probabilities",
    "features",
    "silence",
    "items",
    "answers",
    "order",
    "prior",
    "smoothing",
    "shrinkage",
    "max_iter",
    "tol",
)
_MORE = ("groups", "rule", "field", "inference")


def integer(value: Any) -> int:
    """Return a seed that every method takes.  As a function, it keeps the range out of the help."""
    return int(click.IntRange(0, 2**32 - 1).convert(value, None, None))


def levels(order: str | None) -> list[str] | None:
    """Return the levels that an option names, separated by commas."""
    return None if order is None else [level.strip() for level in order.split(",")]


SEED = integer
ANSWERS = click.Choice(["auto", "nominal", "ordinal", "multi", "open", "numeric"])
#: Limit on the items of a streamed run that gets a report: a report needs all items in memory.
_MOST_REPORTED = 200_000
_SECTIONS = {
    "Reading the file": READING,
    "What answers and their absence mean": ("answers", "order", "silence", "items"),
    "More than labels": ("probabilities", "features"),
    "Tokens in order": ("sequence", "position", "valid"),
    "Related items": ("edges", "delta", "field", "inference", "must_link", "cannot_link"),
    "Large data": ("engine", "memory", "scheduler", "checkpoint", "labels_format"),
    "Fitting": ("prior", "smoothing", "shrinkage", "max_iter", "tol", "groups", "rule"),
}


@click.command(name="aggregate", cls=Sectioned, sections=_SECTIONS)
@click.argument("labels", type=LABELS)
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="Name of the method, such as ds-em or majority; +em refines any, +hmm is for sequences.",
)
@click.option("--truth", type=click.Path(), help="File of true labels (item, label) to measure the error against.")
@click.option("--gold", type=click.Path(), help="File of known answers (item, label), which are kept as they are.")
@click.option("--out", type=click.Path(), help="Folder for tables, model, summary and report.html.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--engine", default="local", show_default=True, help="Where the passes run: local, stream or dask.")
@click.option("--memory", help="With labels on disk: memory to use, such as 2GiB.  [default: half of it]")
@click.option("--scheduler", help="With --engine dask: address.  [default: a local cluster]")
@click.option(
    "--checkpoint", type=click.Path(), help="Folder for intermediate results: a killed run continues from there."
)
@click.option(
    "--labels-format",
    type=click.Choice(["csv", "parquet"]),
    help="Format of the labels in --out.  [default: csv, parquet for many items]",
)
@click.option("--format", help="Format of the file, such as csv or label-studio.  [default: recognised]")
@click.option("--question", help="Which question to read, if a file has several; 'all' with aggregate.")
@click.option("--item", help="Name of the item column.")
@click.option("--annotator", help="Name of the annotator column.")
@click.option("--label", help="Name of the label column.")
@click.option("--sequence", help="Name of the sequence column, for labels of tokens in order.")
@click.option("--position", help="Name of the column with the position of a token in its sequence.")
@click.option(
    "--valid/--any-order", default=True, help="Sequences: forbid transitions that BIO tags exclude, or allow all."
)
@click.option(
    "--edges", type=click.Path(), help="File of edges (source, target) between items whose labels tend to agree."
)
@click.option("--delta", type=float, help="With --edges: how strongly neighbours agree.  [default: estimated]")
@click.option(
    "--probabilities",
    type=click.Path(),
    help="File of a classifier's class probabilities: an item column and one for each class.",
)
@click.option(
    "--features", type=click.Path(), help="File of features: an item column, and columns of numbers or one of texts."
)
@click.option(
    "--field",
    type=click.Choice(["stationary", "prior", "uniform"]),
    help="With --edges: how class frequencies enter.  [default: stationary]",
)
@click.option(
    "--inference",
    type=click.Choice(["mean-field", "icm"]),
    help="With --edges: how labels are found given their neighbours.  [default: mean-field]",
)
@click.option("--groups", type=int, help="tensor-admm: groups of annotators within which triples are taken.")
@click.option(
    "--rule", type=click.Choice(["map", "ml"]), help="tensor-admm: labels by posterior, or by likelihood alone."
)
@click.option("--must-link", type=click.Path(), help="File of pairs (source, target) of items of the same class.")
@click.option("--cannot-link", type=click.Path(), help="File of pairs (source, target) of items of different classes.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a text file.")
@click.option(
    "--max-bytes", help="Size that a gzipped file or a JSON document may have, such as 20GB.  [default: by memory]"
)
@click.option(
    "--duplicates",
    type=click.Choice(["last", "first", "keep", "error"]),
    default="last",
    show_default=True,
    help="Which answer counts if an annotator answers an item again.",
)
@click.option(
    "--silence",
    metavar="[auto|random|informative|LABEL]",
    help="What it means to give no label: nothing (random), a choice (informative), or a label, such as O.  "
    "[default: auto]",
)
@click.option("--items", type=click.Path(), help="File of all items, for those that nobody labelled.")
@click.option(
    "--answers",
    type=ANSWERS,
    help="What answers mean: classes that items share, levels of a scale, several options joined by |, options that "
    "differ from item to item, or numbers.  [default: auto]",
)
@click.option("--order", metavar="LOW,…,HIGH", help="The levels of a scale from low to high, separated by commas.")
@click.option(
    "--prior", type=click.Choice(["learned", "uniform"]), help="Estimate the class frequencies, or take them as equal."
)
@click.option("--smoothing", type=float, help="Pseudo-labels added to every cell of every confusion matrix.")
@click.option("--shrinkage", type=float, help="Pseudo-labels per cell on average, distributed as the crowd answers.")
@click.option("--max-iter", type=int, help="Maximal number of passes over the data.")
@click.option("--tol", type=float, help="Stop when the relative change of the objective is at most this.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of tables.")
@click.option("--verbose", is_flag=True, help="Also print how it was computed, the classes and all annotators.")
def command(
    labels: str,
    sequence: str | None,
    position: str | None,
    valid: bool,
    edges: str | None,
    delta: float | None,
    **options: Any,
) -> None:
    """Turn LABELS, a table with a row for each label or the export of an annotation tool, into consensus labels.

    Columns are recognised by name: task|item|question|id, worker|annotator|rater|judge|user and
    label|answer|response|value.  With --sequence or --position, and for CoNLL files and brat folders, the labels are of
    tokens in order.  With --edges, items have neighbours.  A folder of Parquet files is streamed from disk.
    """
    import consilience as cs
    from consilience.cli import _output
    from consilience.engine.place import holds_parquet

    in_order = bool(sequence or position)
    options["edges"] = edges
    networked = {name: path for name, option in _NETWORK.items() if (path := options.pop(option)) is not None}
    reading = {name: options.pop(name) for name in READING}
    parameters = {name: value for name in (*_PARAMETERS, *_MORE) if (value := options.pop(name)) is not None}
    if "order" in parameters:
        parameters["order"] = levels(parameters["order"])
    options |= {"title": Path(labels).name, "encoding": reading["encoding"]}
    if in_order and (networked or reading["item"] is not None):
        raise click.UsageError(_NOT_BOTH)
    if options["scheduler"] is not None and options["engine"] != "dask":
        raise click.UsageError("--scheduler needs --engine dask")
    for name, value in (
        ("delta", delta),
        ("field", parameters.get("field")),
        ("inference", parameters.get("inference")),
    ):
        if value is not None and edges is None:
            raise click.UsageError(f"--{name} needs --edges")
    if not in_order and not networked and (options["engine"] == "stream" or holds_parquet(labels)):
        if reading.pop("question") is not None:
            raise click.UsageError("--question is for exports of annotation tools, which cannot be streamed")
        del reading["max_bytes"]  # a stream needs no memory for the whole file
        reading = {name: value for name, value in reading.items() if value is not None}
        run_aggregate(labels, **options, reading=reading, **parameters)
        return
    if reading["question"] == "all" and not in_order:
        if networked:
            raise click.UsageError("--question all does not go with --edges, --must-link and --cannot-link")
        del reading["question"]
        run_questions(labels, **options, reading=reading, **parameters)
        return
    with _output.quiet(), _output.reading(labels):  # the notes are in the summary
        if in_order:
            del reading["question"], reading["item"]
            data: Any = cs.read_sequences(labels, sequence=sequence, position=position, **reading)
        else:
            data = cs.read(labels, **reading)
        if not isinstance(data, cs.Annotations):
            parameters["valid"] = valid
            if networked:
                raise click.UsageError(_NOT_BOTH)
        for name, path in networked.items():
            parameters[name] = cs.read_edges(path, like=data, encoding=reading["encoding"])
        if delta is not None:
            parameters["delta"] = delta
    run_aggregate(data, **options, **parameters)


#: Options for reading a table of labels, which other verbs have too.
reading_options = [option for option in command.params if option.name in READING]


def run_aggregate(
    data: Any,
    method: str,
    *,
    title: str,
    truth: str | None = None,
    gold: str | None = None,
    out: str | None = None,
    labels_format: Any = None,
    as_json: bool = False,
    verbose: bool = False,
    encoding: str = "utf-8",
    reading: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Aggregate labels, or a path that is read with the options ``reading``; then write and print the result."""
    import consilience as cs
    from consilience.cli import _output
    from consilience.data.frames import Origin
    from consilience.files import check_replaceable

    if out is not None:
        check_replaceable(out, "summary.json")
    with _output.caught() as sentences:
        in_order = reading is None and not isinstance(data, cs.Annotations)
        read_truth = cs.read_sequence_truth if in_order else cs.read_truth
        like = data
        if reading is not None:  # nothing is read yet, but columns may have been named
            like = SimpleNamespace(origin=Origin(**{name: reading[name] for name in _COLUMNS if name in reading}))
        known = None if gold is None else read_truth(gold, encoding=encoding, like=like)
        expected = None if truth is None else read_truth(truth, encoding=encoding, like=like)
        with _output.progress() as callback:
            consensus: Any = cs.aggregate(data, method, gold=known, reading=reading, callback=callback, **options)
    consensus = _recorded(consensus, title, expected, sentences, written=out is not None)
    if out is not None:
        with _output.waiting("writing the run and its report"), _output.quiet():
            page = None
            if consensus.annotations is not None or consensus.run["N"] <= _MOST_REPORTED:
                from consilience.report import quick_diagnosis, render

                diagnosis = quick_diagnosis(consensus)
                page = render(consensus, truth=expected, diagnosis=diagnosis)
            consensus.save(out, add=_output.writer(page), labels=labels_format)
    _output.show_run(consensus, out, as_json=as_json, verbose=verbose)


def _recorded(consensus: Any, source: str, truth: Any, sentences: list[str], *, written: bool) -> Any:
    """Return a consensus whose run also holds its file, what it was read as, the error, and all warnings."""
    import consilience as cs
    from consilience.cli import _output

    run = {**consensus.run, "source": source}
    if consensus.origin.read_as:
        run["read_as"] = consensus.origin.read_as
    with _output.caught() as more:
        if truth is not None and run.get("answers") == "numeric":
            errors = consensus.errors(truth)
            run |= {"mean_absolute_error": errors.mean_absolute, "root_mean_square_error": errors.root_mean_square}
        elif truth is not None:
            wrong, judged = consensus.count_wrong(truth)
            run |= {"error_rate": 100.0 * (wrong / judged), "error_items": judged}
            if run.get("answers") == "multi":
                run["option_scores"] = consensus.option_scores(truth)._asdict()
            if "sequences" in run and cs.spans.are_tags(consensus.model.classes):
                scores = consensus.span_scores(truth)
                run["spans"] = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    if written and (note := _output.note_on_formulas(consensus)):
        more.append(note)
    run["warnings"] = list(dict.fromkeys([*run["warnings"], *sentences, *more]))
    consensus = consensus.with_run(run)
    with _output.waiting("examining the annotators"):
        # cached: the tables, the summary and the report need them
        _ = consensus.health, consensus.verdict, consensus.estimated_error
    return consensus


def run_questions(
    path: str,
    method: str,
    *,
    title: str,
    truth: str | None,
    gold: str | None,
    out: str | None,
    labels_format: Any,
    as_json: bool,
    verbose: bool,
    encoding: str,
    reading: dict[str, Any],
    **options: Any,
) -> None:
    """Aggregate every question of an export; then write and print the results.

    Files of truths have a column for each question, under its name.
    """
    from dataclasses import replace

    import consilience as cs
    from consilience.cli import _output
    from consilience.files import check_replaceable
    from consilience.io.tables import read_truths

    if out is not None:
        check_replaceable(out, "summary.json")
    with _output.quiet():  # the notes are in the summary
        known = None if gold is None else read_truths(gold, encoding=encoding)
        expected = {} if truth is None else read_truths(truth, encoding=encoding)
        with _output.progress() as callback:
            runs = cs.aggregate_questions(path, method, gold=known, reading=reading, callback=callback, **options)
    if strange := [name for name in expected if name not in (*runs, *runs.failed)]:
        raise cs.exceptions.ColumnError(
            f"{Path(str(truth)).name} has a column {strange[0]!r}, but the questions are {', '.join(map(repr, runs))}"
        )
    done = {name: _recorded(run, title, expected.get(name), [], written=out is not None) for name, run in runs.items()}
    runs = replace(runs, runs=done)
    if out is not None:
        with _output.waiting("writing the runs and their report"), _output.quiet():
            from consilience.report import render

            page = render(runs, truth=expected)
            runs.save(out, add=_output.writer(page), labels=labels_format)
    _output.show_questions(runs, out, as_json=as_json, verbose=verbose)
