"""``consilience rank``: a file of pairwise comparisons in, a ranking out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from consilience.cli.aggregate import SEED

if TYPE_CHECKING:
    from consilience.ranking.result import Ranking

__all__ = ["command"]

#: A table of win rates fits on the screen up to this many items.
_MOST_COLUMNS = 8


@click.command(name="rank")
@click.argument("comparisons", type=click.Path())
@click.option("--out", type=click.Path(), help="Folder for the tables, the model, summary and report.")
@click.option("--left", help="Name of the column with the left items.")
@click.option("--right", help="Name of the column with the right items.")
@click.option("--worker", help="Name of the column with the judges.")
@click.option("--winner", help="Name of the column with the winners: left, right, tie, or the item that won.")
@click.option("--task", help="Name of the column with what the items were compared for, such as a question.")
@click.option("--left-length", help="Name of the column with the lengths of the left texts.")
@click.option("--right-length", help="Name of the column with the lengths of the right texts.")
@click.option("--judges/--equal-judges", default=True, help="Whether judges differ, or all count the same.")
@click.option("--position/--no-position", default=True, help="Whether the side may influence judges.")
@click.option("--length/--no-length", default=True, help="Whether the length of a text may influence judges.")
@click.option("--spread", type=float, help="Standard deviation of the prior of scores.  [default: learned]")
@click.option("--max-iter", default=100, show_default=True, help="Maximal number of rounds.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--format", help="Format of the file: csv, jsonl, mt-bench, alpaca-eval, ….  [default: recognised]")
@click.option("--question", help="Which question to read, if an export has several that compare items.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a text file.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of sentences and tables.")
def command(comparisons: str, out: str | None, as_json: bool, **options: Any) -> None:
    """Rank items by COMPARISONS, a table with a row for each comparison of two items.

    Columns are recognised by name: left and right (or model_a and model_b), worker|annotator|rater|judge|user, and
    winner, which is left, right, tie or the item that won.  MT-Bench judgments, AlpacaEval annotations, and exports of
    Label Studio (pairwise, ranker) and Argilla (ranking) are read too.
    """
    import consilience as cs
    from consilience.cli import _output
    from consilience.files import check_replaceable

    if out is not None:
        check_replaceable(out, "summary.json")
    with _output.caught() as sentences, _output.waiting("fitting scores and judges"):
        found = cs.rank(comparisons, **options)
    if out is not None:
        with _output.waiting("writing the tables"):
            found.save(out)
            cs.report(found, Path(out) / "report.html", title=Path(comparisons).name)
    # warnings name the file before the note
    notes = [note for note in found.notes if not any(sentence.endswith(note) for sentence in sentences)]
    _output.show_notes([*sentences, *notes])
    if as_json:
        _output.show_json(found.summary())
        return
    _show(found)
    if out is not None:
        files = ", ".join(sorted(file.name for file in Path(out).iterdir()))
        click.echo(_output.safe(f"\nWritten to {out}: {files}"))


def _show(found: Ranking) -> None:
    """Print a ranking; names from data are printed as they are."""
    import narwhals as nw
    from rich.console import Console
    from rich.text import Text

    from consilience.cli._output import safe, show_table

    data = found.comparisons
    console = Console(highlight=False, soft_wrap=True)
    counts = f"{data.n_comparisons} comparisons of {data.n_items} items by {data.n_judges} judges"
    console.print(counts + "\n", markup=False)
    console.print(Text(safe(found.headline), style="bold"))
    console.print(Text(safe(found.best)))
    console.print(Text(safe(_open_pairs(found))))
    if said := found.advice:
        console.print(Text("\nWhat to do", style="bold"))
    for sentence in said:
        console.print(Text(safe(f"- {sentence}")))
    tables = Console(highlight=False)
    scores = nw.from_native(found.scores, eager_only=True)
    rows = [
        (*row[:2], f"{row[2]:.2f} to {row[3]:.2f}", row[4], f"{row[5]} to {row[6]}", f"{100 * row[7]:.0f}%", *row[8:9])
        for row in scores.rows()
    ]
    headings = ("item", "score", "95%", "rank", "95%", "win rate", "comparisons")
    show_table(tables, "Items, best first", rows, headings)
    if data.n_items <= _MOST_COLUMNS and found.n_groups == 1:
        _show_win_rates(tables, found)
    judges = nw.from_native(found.judges, eager_only=True)
    flagged = judges.filter(nw.col("flags") != "").sort("n_comparisons", descending=True)
    if not len(flagged):
        console.print("\nNo judge needs attention.")
        return
    shown = flagged.select(flagged.columns[0], "n_comparisons", "reliability", "agreement", "flags")
    title = f"Judges who need attention, {len(flagged)} of {data.n_judges}"
    show_table(tables, title, shown.rows(), (shown.columns[0], "comparisons", *shown.columns[2:]))


def _open_pairs(found: Ranking) -> str:
    n = int(found.close[0].size)
    if n == 0:
        return "Any two neighbours can be told apart."
    return f"The order of {n} {'pair' if n == 1 else 'pairs'} of items is open: their difference may be 0."


def _show_win_rates(console: Any, found: Ranking) -> None:
    """Print the expected win rate of every item against every other."""
    import narwhals as nw

    from consilience.cli._output import show_table

    items = nw.from_native(found.scores, eager_only=True)["item"].to_list()
    code = {item: n for n, item in enumerate(found.comparisons.item_ids)}
    rates = found.expected_win_rates()
    rows = [
        (one, *("" if one == two else f"{100 * rates[code[one], code[two]]:.0f}%" for two in items)) for one in items
    ]
    show_table(console, "Expected win rate of a row against a column", rows, ("item", *items))
