"""``consilience diagnose``: whether the labels determine the model, why, and what to collect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from consilience.cli._help import Sectioned
from consilience.cli._input import LABELS
from consilience.cli.aggregate import ANSWERS, SEED, levels, reading_options

if TYPE_CHECKING:
    from rich.console import Console

    from consilience.diagnose import Diagnosis

__all__ = ["command"]

#: Classes that are printed.
_MOST_CLASSES = 100
_COLOURS = {"identified": "bold green", "weakly": "bold yellow", "not": "bold red"}


@click.command(name="diagnose", cls=Sectioned, params=list(reading_options))
@click.argument("labels", type=LABELS)
@click.option("--answers", type=ANSWERS, default="auto", show_default=True, help="What answers mean, as for aggregate.")
@click.option("--order", metavar="LOW,…,HIGH", help="The levels of a scale from low to high, separated by commas.")
@click.option("--method", default="auto", show_default=True, help="Method whose model is examined; +em refines any.")
@click.option(
    "--bootstrap",
    type=int,
    help="Number of fits to items drawn with replacement, 0 for none; by default 20, or none where they are slow.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the draws.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of sentences and tables.")
@click.option("--verbose", is_flag=True, help="Also print the figures behind the verdict, of classes and annotators.")
def command(
    labels: str,
    answers: str,
    order: str | None,
    method: str,
    bootstrap: int | None,
    seed: int,
    as_json: bool,
    verbose: bool,
    **reading: Any,
) -> None:
    """Check whether LABELS, a table with a row for each label, show how good every annotator is.

    Prints a verdict (identified, weakly identified, not identified), the reasons, and which annotators need common
    items.
    """
    import consilience as cs
    from consilience.cli import _output
    from consilience.data.set_labels import as_sets
    from consilience.diagnose import Diagnosis
    from consilience.diagnose.multi import MultiDiagnosis

    with _output.quiet(), _output.reading(labels):  # the notes are printed below
        annotations = cs.read(labels, **reading)
    with _output.waiting("examining who agrees with whom"), _output.caught() as sentences:
        treated: dict[str, Any] = {"answers": answers, "order": levels(order), "method": method}
        found: Any = cs.diagnose(annotations, bootstrap=bootstrap, seed=seed, **treated)
    # answers without a label tick nothing, if labels name several options
    origin = (as_sets(annotations) if isinstance(found, MultiDiagnosis) else annotations).origin
    _output.show_notes([*origin.notes, *sentences])
    if as_json:
        _output.show_json(found.to_dict())
    elif isinstance(found, Diagnosis):
        _show(found, verbose)
    else:
        click.echo(_output.safe(str(found)))


def _show(found: Diagnosis, verbose: bool) -> None:
    """Print a diagnosis; names from data are printed as they are."""
    from rich.console import Console
    from rich.text import Text

    from consilience.cli._output import safe, show_text
    from consilience.data.names import counted

    console = Console(highlight=False)
    M, K = len(found.annotator_ids), len(found.class_ids)
    labels, items = counted(found.n_labels, "label"), counted(found.n_items, "item")
    size = f"{labels} of {items} by {counted(M, 'annotator')}, {counted(K, 'class', 'es')}"
    console.print(f"{size}\n", markup=False)
    console.print(Text(safe(found.headline), style=_COLOURS[found.verdict]))
    for title, sentences in (("Why", found.reasons), ("What to do", found.advice)):
        if sentences:
            console.print(Text(f"\n{title}", style="bold"))
        for sentence in sentences:
            show_text(console, sentence, first="- ", rest="  ")
    if verbose:
        _show_numbers(found, console)
    else:
        console.print(Text("\n--verbose shows the figures behind this.", style="dim"))


def _show_numbers(found: Diagnosis, console: Console) -> None:
    """Print the figures behind a verdict, and tables of classes and annotators."""
    import narwhals as nw
    from rich.text import Text

    from consilience.cli._output import show_table, show_text

    console.print(Text("\nIn numbers", style="bold"))
    for line in _numbers(found):
        show_text(console, line, first="- ", rest="  ")
    classes = nw.from_native(found.classes, eager_only=True).with_columns(nw.col("items").round(0).cast(nw.Int64))
    rows = _rows(classes)
    headings = [name.replace("_", " ") for name in classes.columns]
    show_table(console, "Classes, and who comes nearest to knowing each", rows, headings, most=_MOST_CLASSES)
    people = nw.from_native(found.annotators, eager_only=True)
    people = people.sort("standard_error", "common_items", descending=[True, False], nulls_last=True)
    people = people.drop("condition")  # condition numbers are in the Python table and in JSON
    if found.graph.n_components == 1:
        people = people.drop("group")
    # spaces let long headings break between words
    headings = [people.columns[0], *(name.replace("_", " ") for name in people.columns[1:])]
    show_table(console, "Annotators, least certain first", _rows(people), headings)


def _numbers(found: Diagnosis) -> list[str]:
    import numpy as np

    g, b, s, t = found.graph, found.blocks, found.scatter, found.stability
    groups = "1 group" if g.n_components == 1 else f"{g.n_components} groups"
    gaps = "; every pair of annotators has items in common"
    if g.missing:
        gaps = f"; {100 * g.missing:.1f}% of the pairs of annotators have no item in common, "
        gaps += f"{'' if g.exact else 'about '}{100 * g.imputable:.1f}% of these follow from others"
    lines = [f"annotators with common items: {groups}{gaps}"]
    if b.pair.size:
        low, error, firm = np.median(b.pair_smallest), np.median(b.pair_error), (b.pair_smallest > b.pair_error).sum()
        lines.append(
            f"pairs of annotators: smallest singular value {low:.3f}, sampling error at most {error:.3f} (medians); "
            f"above its error in {firm} of {b.pair.size} pairs"
        )
    bound = "" if s.exact else "at least "
    lines.append(f"sufficiently scattered condition: {bound}{s.shortfall:.3f} short of it (0: it holds; 1: not at all)")
    if found.effective_annotators is not None:
        lines.append(f"independent annotators: {found.effective_annotators:.1f} of {(g.n_labels > 0).sum()} at most")
    if found.agreement is not None:
        lines.append(f"agreement: {found.agreement}")
    if found.guarantees is not None:
        lines.extend(found.guarantees.sentences)
    if t.draws:
        lines.append(f"bootstrap: {t.draws} draws of {t.items} items change {100 * t.changed:.1f}% of the labels")
    return lines


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a frame, with None for NaN."""
    return [tuple(None if value != value else value for value in row) for row in frame.rows()]
