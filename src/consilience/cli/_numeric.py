"""What ``aggregate`` prints for numbers: the verdict, the expected error, slips, and which items to review."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from consilience.cli._output import safe, show_table

if TYPE_CHECKING:
    from consilience.runs.numeric_run import NumericRun

__all__ = ["show_numeric"]

_ROWS = 10
_HEADLINES = {
    "identified": ("green", "The answers show who is near the truth."),
    "weakly": ("yellow", "The answers show who is near the truth only in part."),
    "not": ("red", "The answers do not show who is near the truth."),
}


def show_numeric(consensus: NumericRun, *, verbose: bool = False) -> None:
    """Print a run over numbers; ``verbose`` adds how it was computed and all annotators."""
    import narwhals as nw

    console = Console(highlight=False)
    run, error, verdict = consensus.run, consensus.estimated_error, consensus.verdict
    if verdict is not None:
        colour, headline = _HEADLINES[verdict]
        console.print(Text(headline, style=f"bold {colour}"))
        if verdict != "identified" and consensus.diagnose is not None:
            for sentence in (*consensus.diagnosis.reasons[:1], *consensus.diagnosis.advice[:1]):
                console.print(Text(safe(f"  {sentence}")))
    basis = "from the labels alone" if error.basis == "labels" else f"from {run['gold_items']} known values"
    console.print(Text(f"Expected error: {_number(error.value)} on average ({_between(error)}), {basis}."))
    if "mean_absolute_error" in run:
        absolute, square = (_number(run[name]) for name in ("mean_absolute_error", "root_mean_square_error"))
        console.print(Text(f"Against the truth given: mean absolute error {absolute}, root mean square error {square}"))
    width = consensus.high - consensus.low
    if not np.isfinite(width).all():
        console.print(Text(f"{int((~np.isfinite(width)).sum()):,} items have no answers."))
    flags = consensus.annotator_columns["flags"].to_pylist()
    people = nw.from_native(consensus.annotators, eager_only=True)
    rows = [row for row, flag in zip(people.rows(), flags, strict=True) if flag and (verbose or flag != "few labels")]
    if rows and not verbose:
        show_table(console, "Annotators who need attention", rows, people.columns)
    if run["slips"]:
        slips = nw.from_native(consensus.slips, eager_only=True)
        show_table(console, "Answers that were left out", slips.rows(), slips.columns)
    doubtful = nw.from_native(consensus.doubtful(_ROWS), eager_only=True)
    show_table(console, "Items to review first", doubtful.rows(), doubtful.columns)
    console.print()
    read = f", read as {run['read_as']}" if "read_as" in run else ""
    state = "" if run["converged"] else ", NOT converged"
    console.print(
        Text(
            safe(
                f"{run['labels']:,} labels of {run['N']:,} items by {run['M']:,} annotator{'s' * (run['M'] != 1)}, "
                f"numbers{read}; {run['method']}, {run['seconds']:.2f} s{state}"
            )
        )
    )
    if not verbose:
        console.print(Text("--verbose shows how this was computed and all annotators.", style="dim"))
        return
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in run["weights"].items())
    console.print(Text(f"{run['iterations']} passes; weights of the members: {weights}"))
    show_table(console, "Annotators", people.rows(), people.columns, most=200)


def _number(value: float) -> str:
    return f"{value:.4g}"


def _between(error: tuple[float, float, float, str]) -> str:
    return f"{_number(error[1])} to {_number(error[2])}"
