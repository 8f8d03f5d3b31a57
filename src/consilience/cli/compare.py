"""``consilience compare``: methods side by side on labels whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from consilience.cli._help import Sectioned
from consilience.cli._input import LABELS
from consilience.cli.aggregate import ANSWERS, levels, reading_options

if TYPE_CHECKING:
    from consilience.compare.compare import Step
    from consilience.compare.comparison import Comparison
    from consilience.compare.values import ValueComparison

__all__ = ["command"]


@click.command(name="compare", cls=Sectioned, params=list(reading_options))
@click.argument("labels", type=LABELS)
@click.option(
    "--truth", type=click.Path(), required=True, help="File of true labels (item, label) to measure errors against."
)
@click.option("--methods", default="all", show_default=True, help="Names separated by commas; +em refines any.")
@click.option("--answers", type=ANSWERS, default="auto", show_default=True, help="What answers mean, as for aggregate.")
@click.option("--order", metavar="LOW,…,HIGH", help="The levels of a scale from low to high, separated by commas.")
@click.option("--seeds", default=5, show_default=True, help="Number of runs of a random method.")
@click.option(
    "--jobs", default=1, show_default=True, help="Methods to run at a time; with more than one, times are longer."
)
@click.option("--timeout", type=float, help="Time limit of a method in seconds, all seeds together.")
@click.option("--out", type=click.Path(), help="Folder for comparison.csv, runs.csv, reliability.csv, summary.json.")
@click.option("--csv", "csv_", type=click.Path(), help="File for the table.")
@click.option("--plot", type=click.Path(), help="File for the picture: .png, .svg or .pdf.")
@click.option("--json", "printed", flag_value="json", help="Print everything as JSON instead of tables.")
@click.option("--markdown", "printed", flag_value="markdown", help="Print one table, in Markdown.")
@click.option("--latex", "printed", flag_value="latex", help="Print one table, in LaTeX (booktabs).")
def command(
    labels: str,
    truth: str,
    methods: str,
    answers: str,
    order: str | None,
    seeds: int,
    jobs: int,
    timeout: float | None,
    out: str | None,
    csv_: str | None,
    plot: str | None,
    printed: str | None,
    **reading: Any,
) -> None:
    """Run methods on LABELS, a table with a row for each label, and compare their results with a truth.

    Prints the error of every method, how well its probabilities are calibrated, its time and its memory.
    """
    import consilience as cs
    from consilience.cli import _output
    from consilience.compare.compare import compare
    from consilience.compare.values import ValueComparison
    from consilience.files import check_replaceable

    if out is not None:
        check_replaceable(out, "summary.json")
    if plot is not None:
        _check_picture(plot)
    with _output.quiet(), _output.reading(labels):  # the comparison has the notes on reading
        annotations = cs.read(labels, **reading)
    with _output.caught() as sentences:
        known = cs.read_truth(truth, encoding=reading["encoding"], like=annotations)
        with _progress() as callback:
            options: dict[str, Any] = {"seeds": seeds, "jobs": jobs, "timeout": timeout, "callback": callback}
            treated: dict[str, Any] = {"answers": answers, "order": levels(order)}
            found = compare(annotations, known, methods=methods, **treated, **options)
    _output.show_notes(list(dict.fromkeys([*found.notes, *sentences])))
    if isinstance(found, ValueComparison):
        if out is not None or plot is not None or printed not in (None, "json"):
            raise click.UsageError(f"for answers of kind {found.kind!r}, the comparison has --csv and --json only")
        _show_values(found, csv_, as_json=printed == "json")
        return
    written = _write(found, out, csv_, plot)
    if printed == "json":
        _output.show_json(found.to_dict())
        return
    if printed is not None:
        click.echo(found.to_markdown() if printed == "markdown" else found.to_latex(), nl=False)
        return
    _show(found)
    if written:
        click.echo(f"\nWritten: {', '.join(written)}")


def _show_values(found: ValueComparison, csv_: str | None, *, as_json: bool) -> None:
    """Print a comparison of numbers or several options."""
    from rich.console import Console

    from consilience.cli._output import show_json, show_table

    if csv_ is not None:
        found.to_csv(csv_)
    if as_json:
        show_json(found.to_dict())
        return
    columns = found.columns()
    names = [name for name, values in columns.items() if name != "note" and any(values.to_pylist())]
    rows = list(zip(*(columns[name].to_pylist() for name in names), strict=True))
    # spaces let long headings break between words
    headings = [name.replace("_", " ") for name in names]
    show_table(Console(highlight=False), "Methods, smallest error first", rows, headings, most=len(rows))
    _show_remarks(found.rows)
    if csv_ is not None:
        click.echo(f"\nWritten: {csv_}")


def _check_picture(path: str) -> None:
    """Check before the methods run that the picture can be drawn."""
    from consilience.compare.comparison_plot import check_picture

    try:
        check_picture(path)
    except ImportError as error:
        raise click.UsageError(str(error)) from error


def _write(found: Comparison, out: str | None, csv_: str | None, plot: str | None) -> list[str]:
    written = []
    if out is not None:
        found.save(out)
        written += [f"{out}/{name}" for name in sorted(file.name for file in Path(out).iterdir())]
    if csv_ is not None:
        found.to_csv(csv_)
        written.append(csv_)
    if plot is not None:
        found.plot(plot)
        written.append(plot)
    return written


@contextmanager
def _progress() -> Iterator[Callable[[Step], None]]:
    """Show a progress bar on stderr if it is a terminal; it disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def callback(step: Step) -> None:
            bar.update(task, completed=step.done, total=step.total, description=", ".join(step.running))

        yield callback


def _show(found: Comparison) -> None:
    """Print a comparison: errors, costs and remarks."""
    from rich.console import Console

    from consilience.cli._output import show_table
    from consilience.compare.comparison_text import HEADINGS, cells

    facts = found.facts
    called = "levels" if facts["answers"] == "ordinal" else "classes"
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{facts['labels']} labels of {facts['N']} items by {facts['M']} annotators, {facts['K']} {called}; "
        f"{facts['judged']} items judged",
        markup=False,
    )
    tables = Console(highlight=False)
    rows = [row for row in found.summaries if row["error"] is not None]
    right = [cells(row) for row in rows]
    if right:
        show_table(tables, "What they get right, smallest error first", right, HEADINGS, most=len(right))
    costs = [
        (
            row["method"],
            "-" if row["seconds"] is None else f"{row['seconds']:7.3f} s",
            "-" if row["memory_mb"] is None else f"{row['memory_mb']:6.1f} MB",
            str(row["runs"]),
            row["status"],
        )
        for row in found.summaries
    ]
    show_table(tables, "What they cost", costs, ("method", "seconds", "memory", "runs", "status"), most=len(costs))
    _show_remarks(found.summaries)


def _show_remarks(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the notes of the methods that have one."""
    from rich.console import Console
    from rich.text import Text

    from consilience.cli._output import safe

    console = Console(highlight=False, soft_wrap=True)
    remarks = [row for row in rows if row["note"]]
    if remarks:
        console.print(Text("\nRemarks", style="bold"))
    for row in remarks:
        status = "" if row.get("status", "done") == "done" else f" ({row['status']})"
        console.print(Text(safe(f"- {row['method']}{status}: {row['note']}")))
