"""Output of the verbs: tables and notes for people, progress of long fits."""

from __future__ import annotations

import json
import math
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from consilience.exceptions import ConsilienceWarning, VerdictWarning

if TYPE_CHECKING:
    from consilience.fitting.em import Callback
    from consilience.runs.consensus import Consensus
    from consilience.runs.question_runs import QuestionRuns

__all__ = [
    "Meter",
    "caught",
    "note_on_formulas",
    "progress",
    "quiet",
    "reading",
    "safe",
    "show_json",
    "show_notes",
    "show_questions",
    "show_run",
    "show_table",
    "show_text",
    "waiting",
    "writer",
]

_MOST_ROWS = 12
_COMPILING = "compiling, in the first run only"
#: Least width of a column of texts.
_LEAST_ROOM = 20

#: Longest name in a table; tables of names of 50,000 characters would take minutes to lay out.
_LONGEST = 200

#: Characters that a terminal acts on: control characters other than line end and tab, and changes of direction.
_ACTING = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}
_ACTING |= {c: f"\\u{c:04x}" for c in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def safe(text: str) -> str:
    """Return text in which characters that a terminal acts on are written as escapes."""
    return text if text.isascii() and text.isprintable() else text.translate(_ACTING)


def show_json(content: Any) -> None:
    """Print plain values as JSON, which escapes what a terminal acts on."""
    text = json.dumps(content, indent=2, ensure_ascii=False, default=float)
    click.echo(text.translate({c: f"\\u{c:04x}" for c in _ACTING if c > 31}))


def show_text(console: Console, text: str, *, first: str = "", rest: str | None = None, style: str = "") -> None:
    """Print text in lines of whole words, which begin with ``first`` and then with ``rest`` (as ``first``)."""
    lines = textwrap.wrap(
        safe(text),
        console.width,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


class Meter:
    """Speed of the passes (labels per second) and the time left."""

    def __init__(self) -> None:
        self.step: str | None = None
        self.begun = 0.0
        self.first = self.last = self.labels = 0

    def describe(self, state: Any, now: float) -> str:
        """Return the text beside the bar after one more pass, or one more part of a long step."""
        if state.step != self.step or state.iteration < self.first:
            self.step, self.begun, self.first, self.labels = state.step, now, state.iteration, 0
        else:  # passes may be over different numbers of labels
            self.labels += state.labels * (state.iteration - self.last)
        self.last = state.iteration
        passed, seconds = state.iteration - self.first, now - self.begun
        parts = [state.step or f"pass {state.iteration}, log-likelihood {state.objective:.2f}"]
        if not math.isnan(state.change):
            parts.append(f"change {state.change:.0e}")
        if passed > 0 and seconds > 0:
            if self.labels:
                parts.append(f"{_short(self.labels / seconds)} labels/s")
            if not math.isnan(state.left):
                parts.append(f"{_clock(state.left * seconds / passed)} left")
        return ", ".join(parts)


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
    """Show a progress bar on stderr if it is a terminal; it disappears at the end."""
    import time

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("passes over the data", total=None)
        meter = Meter()

        def callback(state: Any) -> None:
            total = state.max_iter if math.isnan(state.left) else state.iteration + state.left
            text = meter.describe(state, time.monotonic())
            bar.update(task, completed=state.iteration, total=total, description=text)

        with _telling(lambda: bar.update(task, total=None, description=_COMPILING)):
            yield callback


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on stderr what is being done, and for how long, if it is a terminal; the line disappears at the end."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as line:
        task = line.add_task(safe(what), total=None)
        with _telling(lambda: line.update(task, description=f"{safe(what)}: {_COMPILING}")):
            yield


@contextmanager
def _telling(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` whenever a kernel has been compiled."""
    from consilience.kernels._compile import listeners

    listeners.append(tell)
    try:
        yield
    finally:
        listeners.remove(tell)


def reading(path: str) -> AbstractContextManager[None]:
    """Show on stderr that a file is being read, with its size, if it is a terminal."""
    place = Path(path)
    size = f" ({_short(place.stat().st_size)}B)" if place.is_file() else ""
    return waiting(f"reading {place.name}{size}")


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings of this package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        yield


@contextmanager
def caught() -> Iterator[list[str]]:
    """Catch warnings; at the end the list holds the sentences of those of this package, each once.

    A verdict is not among them: every run prints its own.
    """
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ConsilienceWarning)
        warnings.simplefilter("ignore", VerdictWarning)
        yield sentences
    sentences += dict.fromkeys(str(w.message) for w in found if issubclass(w.category, ConsilienceWarning))


def writer(page: str | None) -> Callable[[Path], object] | None:
    """Return a function that writes a report into the folder of its run."""
    return None if page is None else lambda folder: (folder / "report.html").write_text(page, "utf-8")


def note_on_formulas(consensus: Consensus) -> str | None:
    """Return a note if a name would be a formula in a spreadsheet: the tables of a run hold names as they are."""
    from consilience.runs.label_table import formulas

    named = {"item": consensus.item_ids, "annotator": consensus.model.annotators, "label": consensus.model.classes}
    for role, ids in named.items():
        names = ids.to_arrow()
        found = names.filter(formulas(names))
        if len(found):
            return (
                f"the {role} {found[0].as_py()!r} would be a formula in a spreadsheet; labels.csv and annotators.csv "
                "hold names as they are, and 'consilience export --spreadsheet' makes a table that is safe to open"
            )
    return None


def show_notes(notes: list[str]) -> None:
    """Print notes for the user on stderr."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for note in notes:
        console.print("Note:", safe(note), style="yellow", markup=False, emoji=False)


def show_run(consensus: Consensus, folder: str | None, *, as_json: bool, verbose: bool = False) -> None:
    """Print the summary or tables of a run, its notes, and the files that were written.

    The notes come after the verdict, which is the first thing to read.
    """
    from consilience.diagnose.decision import notes_beside

    if as_json:
        show_notes(consensus.warnings)
        show_json(consensus.summary())
        return
    if consensus.run.get("answers") == "numeric":
        from consilience.cli._numeric import show_numeric as show
    else:
        from consilience.cli._summary import show_consensus as show
    show(consensus, verbose=verbose)  # type: ignore[arg-type]
    notes = notes_beside(consensus.warnings)
    show_notes([*notes, consensus.run["hint"]] if "hint" in consensus.run else notes)
    _show_files(folder)


def show_questions(runs: QuestionRuns, folder: str | None, *, as_json: bool, verbose: bool = False) -> None:
    """Print the summary or tables of the runs of several questions, their notes, and the files that were written."""
    said = {name: run.warnings for name, run in runs.items()}
    # what holds for the file is said once
    common = [note for note in next(iter(said.values())) if all(note in notes for notes in said.values())]
    own = [f"{name}: {note}" for name, notes in said.items() for note in notes if note not in common]
    notes = [*runs.notes, *common, *own]
    if as_json:
        show_notes(notes)
        show_json(runs.summary())
        return
    from consilience.cli import _summary

    _summary.show_questions(runs, verbose=verbose)
    show_notes(notes)
    _show_files(folder)


def _show_files(folder: str | None) -> None:
    if folder is not None:
        names = sorted(file.name + "/" * file.is_dir() for file in Path(folder).iterdir())
        click.echo(safe(f"\nWritten to {folder}: {', '.join(names)}"))
        if "report.html" in names:
            click.echo(safe(f"Open {Path(folder) / 'report.html'} in a browser."))


def show_table(
    console: Console,
    title: str,
    rows: list[tuple[Any, ...]],
    columns: Any,
    most: int = _MOST_ROWS,
    texts: list[str] | None = None,
) -> None:
    """Print the first rows of a table; the title says how many there are if some are left out.

    ``texts``, one for each row, are in a last column if there is room, cut to one line.
    """
    if len(rows) > most:
        title += f" ({most} of {len(rows)})"
    table = _table(title, rows[:most], columns)
    room = console.width - console.measure(table).maximum - 2  # what is between columns
    if texts and any(texts) and room >= _LEAST_ROOM:
        wider = [(*row, text[: room - 1] + "…" * (len(text) >= room)) for row, text in zip(rows, texts, strict=True)]
        table = _table(title, wider[:most], (*columns, "text"))
    console.print()
    console.print(table)


def _table(title: str, rows: list[tuple[Any, ...]], columns: Any) -> Table:
    # as Text, names from data are neither markup nor emoji codes
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    numeric = [all(isinstance(row[c], int | float) or row[c] is None for row in rows) for c in range(len(columns))]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(Text(_text(name)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row))
    return table


def _text(value: Any) -> str:
    if value is None or value != value:  # NaN: not known
        return "-"
    if isinstance(value, float):
        return "<0.001" if 0 < value < 0.0005 else f"{value:.3f}"
    text = str(value)
    return safe(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
