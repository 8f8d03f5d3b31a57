"""What verbs print: tables and notes for people, progress for long fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from consilience.fitting.em import Callback
    from consilience.runs.consensus import Consensus

__all__ = ["progress", "show_consensus", "show_notes", "waiting"]

_MOST_ROWS = 12


class Meter:
    """Says how fast passes go by, and how long they will go on: labels a second, and the time left."""

    def __init__(self) -> None:
        self.step: str | None = None
        self.begun = 0.0
        self.first = self.last = self.labels = 0

    def told(self, state: Any, now: float) -> str:
        """Give what to say after one more pass, or one more piece of a long step."""
        if state.step != self.step or state.iteration < self.first:
            self.step, self.begun, self.first, self.labels = state.step, now, state.iteration, 0
        else:  # passes may be over different numbers of labels
            self.labels += state.labels * (state.iteration - self.last)
        self.last = state.iteration
        passed, seconds = state.iteration - self.first, now - self.begun
        said = [state.step or f"pass {state.iteration}, log-likelihood {state.objective:.2f}"]
        if not math.isnan(state.change):
            said.append(f"change {state.change:.0e}")
        if passed > 0 and seconds > 0:
            if self.labels:
                said.append(f"{_short(self.labels / seconds)} labels/s")
            if not math.isnan(state.left):
                said.append(f"{_clock(state.left * seconds / passed)} left")
        return ", ".join(said)


def _short(number: float) -> str:
    for unit in ("", "k", "M", "G"):
        if number < 999.5 or unit == "G":
            break
        number /= 1000
    return f"{number:.3g}{unit}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress() -> Iterator[Callback]:
    """Draw a bar on stderr while passes go by, when somebody is looking; it is gone at the end."""
    import time

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("passes over the data", total=None)
        meter = Meter()

        def told(state: Any) -> None:
            total = state.max_iter if math.isnan(state.left) else state.iteration + state.left
            said = meter.told(state, time.monotonic())
            bar.update(task, completed=state.iteration, total=total, description=said)

        yield told


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on stderr that something is being done, when somebody is looking; it is gone at the end."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


def show_notes(notes: list[str]) -> None:
    """Print what the user should know, on stderr."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for note in notes:
        console.print("Note:", note, style="yellow", markup=False, emoji=False)


def show_consensus(consensus: Consensus) -> None:
    """Print a run as tables."""
    import narwhals as nw

    run = consensus.run
    console = Console(highlight=False)
    state = "converged" if run["converged"] else "NOT converged"
    passes = f", {run['iterations']} passes, {state}" if run["iterations"] else ""
    console.print(
        f"{run['labels']} labels of {_what(run)} by {run['M']} annotators, {run['K']} classes\n"
        f"method {run['method']}{passes}, {run['seconds']:.2f} s, log-likelihood {run['log_likelihood']:.4f}",
        markup=False,
    )
    if "read_as" in run:
        console.print(f"read as {run['read_as']}", markup=False)
    if "why" in run:
        console.print(f"{run['chosen']}: {run['why']}", markup=False)
    if "error_rate" in run:
        console.print(f"error against the truth given: {run['error_rate']:.2f} %", markup=False)
    if "spans" in run:
        found = ", ".join(f"{name} {100 * value:.2f} %" for name, value in run["spans"].items())
        console.print(f"spans against the truth given: {found}", markup=False)
    if consensus.effective_annotators is not None:
        most = "" if consensus.health.by_gold else "at most "
        console.print(f"worth {most}{consensus.effective_annotators:.1f} independent annotators", markup=False)
    _print_frame(console, "Classes", _class_rows(consensus), ("class", "items", "share", "prior"))
    doubtful = nw.from_native(consensus.doubtful(_MOST_ROWS), eager_only=True)
    _print_frame(console, "Items to look at first", doubtful.rows(), doubtful.columns)
    annotators = nw.from_native(consensus.annotators, eager_only=True).sort("information", descending=True)
    title = "Annotators, most informative first"
    if len(annotators) > _MOST_ROWS:
        title += f" ({_MOST_ROWS} of {len(annotators)})"
    shown = annotators.head(_MOST_ROWS)
    _print_frame(console, title, shown.rows(), shown.columns)


def _what(run: Mapping[str, Any]) -> str:
    """Say what was labelled."""
    if "sequences" in run:
        plural = "" if run["sequences"] == 1 else "s"
        return f"{run['N']} tokens in {run['sequences']} sequence{plural}"
    return f"{run['N']} items" + (f" with {run['edges']} edges" if "edges" in run else "")


def _class_rows(consensus: Consensus) -> list[tuple[Any, ...]]:
    items = consensus.items_per_class()
    shares = items / max(int(items.sum()), 1)
    return list(
        zip(
            consensus.model.classes,
            items.tolist(),
            shares.tolist(),
            consensus.model.prior.tolist(),
            strict=True,
        )
    )


def _print_frame(console: Console, title: str, rows: list[tuple[Any, ...]], columns: Any) -> None:
    from rich.text import Text

    # Text is printed as it is: names from data are neither markup nor emoji codes.
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    numeric = [all(isinstance(row[c], int | float) or row[c] is None for row in rows) for c in range(len(columns))]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(Text(str(name)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row))
    console.print()
    console.print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return "<0.001" if 0 < value < 0.0005 else f"{value:.3f}"
    return str(value)
