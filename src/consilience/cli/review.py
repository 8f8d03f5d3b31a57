"""``consilience review``: a local page for deciding doubtful items."""

from __future__ import annotations

from typing import Any

import click

from consilience.cli._help import READING, Sectioned
from consilience.cli.aggregate import SEED, reading_options

__all__ = ["command"]


_SECTIONS = {"Reading the file": READING, "Tokens in order": ("sequence", "position")}


@click.command(name="review", cls=Sectioned, params=list(reading_options), sections=_SECTIONS)
@click.argument("labels", metavar="LABELS_OR_RUN", type=click.Path(exists=True))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free one]")
@click.option("--task-data", type=click.Path(), help="File with what items show: text, images, sounds.")
@click.option("--decisions", type=click.Path(), help="File to keep decisions in.  [default: LABELS_OR_RUN.review.db]")
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option("--remote-media", is_flag=True, help="Show images and sounds from the web instead of links to them.")
@click.option("--gold", type=click.Path(), help="File of answers known before the review (item, label).")
@click.option("--method", default="auto", show_default=True, help="Name of the method; a run keeps its own.")
@click.option(
    "--answers",
    type=click.Choice(["auto", "nominal", "ordinal", "multi", "open", "numeric"]),
    help="What answers mean, as for aggregate.  [default: auto]",
)
@click.option("--sequence", help="Name of the sequence column, for labels of tokens in order.")
@click.option("--position", help="Name of the column with the position of a token in its sequence.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
def command(
    labels: str,
    method: str,
    no_browser: bool,
    gold: str | None,
    answers: str | None,
    sequence: str | None,
    position: str | None,
    **options: Any,
) -> None:
    """Open a page on this machine where people decide doubtful items, and the consensus follows.

    LABELS_OR_RUN is a file of labels, in any format that aggregate reads, or the folder of a run.  The address that is
    printed works once; Ctrl-C ends the review, and the same command continues it.
    """
    import consilience as cs
    from consilience.cli import _output

    reading = {p.name: value for p in reading_options if (value := options.pop(str(p.name))) is not None}
    in_order = {name: value for name, value in (("sequence", sequence), ("position", position)) if value is not None}
    if in_order and reading.keys() & {"item", "question"}:
        raise click.UsageError("--item and --question are for items; --sequence and --position for tokens in order")
    reading |= in_order
    given: dict[str, Any] = {} if answers is None else {"answers": answers}

    def announce(address: str) -> None:
        click.echo(f"Review of {_output.safe(labels)}: {address}")
        click.echo("The address works once, on this machine. Ctrl-C ends the review; the same command continues it.")

    with _output.quiet():
        cs.review(
            labels, method, gold=gold, browser=not no_browser, reading=reading, announce=announce, **given, **options
        )
