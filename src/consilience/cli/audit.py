"""``consilience audit``: what a panel of judges is worth, and what moves their verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from consilience.cli._help import Sectioned
from consilience.cli._input import LABELS
from consilience.cli.aggregate import SEED, reading_options
from consilience.cli.plan import per_annotator

__all__ = ["command"]


@click.command(name="audit", cls=Sectioned, params=list(reading_options))
@click.argument("labels", type=LABELS)
@click.option("--gold", type=click.Path(), help="File of known answers (item, label), a random sample of the items.")
@click.option("--order", type=click.Path(), help="CSV file: item, annotator, and the class that was shown first.")
@click.option("--length", type=click.Path(), help="CSV file: item and its length, or the lengths of two classes.")
@click.option("--author", type=click.Path(), help="CSV file: item and its author, or the authors of two classes.")
@click.option("--families", type=click.Path(), help="CSV file: judge or author, and its family.")
@click.option("--costs", help="Cost of a label: a number, or a file with annotator and cost.")
@click.option(
    "--refusals",
    multiple=True,
    help="Class of a refused or unparsable answer; repeat for several, or missing: every missing label is one.",
)
@click.option("--plot", type=click.Path(), help="File for a picture of cost against error, such as panels.svg.")
@click.option("--report", "page", type=click.Path(), help="File for the audit as one HTML page, such as audit.html.")
@click.option("--judges", type=click.Path(), help="CSV file: annotator and the judge of which it is a variant.")
@click.option("--good", multiple=True, help="Class of a good answer; repeat for several.  [default: the last class]")
@click.option(
    "--without/--no-without", default=None, help="Fit the consensus without each judge.  [default: for up to 25]"
)
@click.option("--level", type=float, default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print all tables as JSON.")
def command(
    labels: str,
    gold: str | None,
    order: str | None,
    length: str | None,
    author: str | None,
    families: str | None,
    costs: str | None,
    refusals: tuple[str, ...],
    plot: str | None,
    page: str | None,
    judges: str | None,
    good: tuple[str, ...],
    without: bool | None,
    level: float,
    seed: int,
    as_json: bool,
    **reading: Any,
) -> None:
    """Audit the judges of LABELS: their errors, families and biases, and with known answers whom to keep."""
    import consilience as cs
    from consilience.cli import _output

    encoding = reading["encoding"]
    with _output.caught() as notes:
        with _output.reading(labels):
            annotations = cs.read(labels, **reading)
        if not isinstance(annotations, cs.Annotations):
            raise cs.exceptions.DataError(f"{labels} has labels of tokens in order; audit is for items by themselves")
        known = None if gold is None else cs.read_truth(gold, encoding=encoding, like=annotations)
        tables = {"order": order, "length": length, "author": author}
        given = {name: None if path is None else _table(path, encoding) for name, path in tables.items()}
        with _output.waiting("auditing the judges"):
            found = cs.audit(
                _with_columns(labels, reading) or annotations,
                gold=known,
                judges=None if judges is None else _mapping(judges, encoding),
                families=None if families is None else _mapping(families, encoding),
                costs=per_annotator(costs, "cost", annotations.origin.annotator, encoding),
                refusals=True if refusals == ("missing",) else list(refusals) or None,
                good=list(good) or None,
                without=without,
                level=level,
                seed=seed,
                **given,
            )
    _output.show_notes(notes)
    if plot is not None:
        cs.plot.cost_against_error(found, plot)
    if page is not None:
        cs.report(found, page, title=f"Audit of the judges: {Path(labels).name}")
    if as_json:
        _output.show_json(found.to_dict())
        return
    for line in str(found).splitlines():
        click.echo(_output.safe(line))


def _with_columns(path: str, reading: dict[str, Any]) -> Any:
    """Return a CSV file as a table if it also says how judges were asked; None otherwise."""
    import consilience as cs
    from consilience.audit.columns import COLUMNS

    if any(reading[name] for name in ("format", "question", "item", "annotator", "label")):
        return None
    if cs.recognise(path, encoding=reading["encoding"]).name != "csv":
        return None
    table = _table(path, reading["encoding"])
    return table if {*COLUMNS, "prompt"} & {name.strip().lower() for name in table.column_names} else None


def _table(path: str, encoding: str) -> Any:
    """Read all columns of a table, with ids as :func:`consilience.read` reads them."""
    import pyarrow as pa

    from consilience.io.tables import read_columns

    read = read_columns(path, None, encoding, lambda names: dict(zip(names, names, strict=True)), "says nothing")
    return pa.table({name: read.ids(name) for name in read.names})


def _mapping(path: str, encoding: str) -> dict[Any, Any]:
    """Read two columns as a mapping from the first to the second."""
    from consilience.exceptions import DataError

    table = _table(path, encoding)
    if table.num_columns != 2:
        raise DataError(f"{path} must have two columns, annotator and judge, not {table.num_columns}")
    made: dict[Any, Any] = {}
    for name, judge in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if judge is None:
            raise DataError(f"{path} has no judge for the annotator {name!r}; leave the row out, or fill it in")
        if made.setdefault(name, judge) != judge:
            raise DataError(f"{path} gives the annotator {name!r} two different judges")
    return made
