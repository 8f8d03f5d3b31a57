"""``consilience estimate``: a share, a mean or a win rate over all items, with a valid interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from consilience.cli._help import Sectioned
from consilience.cli._input import LABELS
from consilience.cli.aggregate import SEED, reading_options

if TYPE_CHECKING:
    from consilience.inference.result import Estimate

__all__ = ["command"]


@click.command(name="estimate", cls=Sectioned, params=list(reading_options))
@click.argument("labels", type=LABELS)
@click.option("--gold", type=click.Path(), help="File of known answers (item, label), a random sample of the items.")
@click.option(
    "--of",
    "of",
    multiple=True,
    help="What to estimate: the share of a class (repeat for several), mean, or values such as A=1 tie=0.5 B=0, each "
    "with an --of of its own.  [default: mean, if classes are numbers]",
)
@click.option("--by", type=click.Path(), help="File with the group of every item: one estimate for each.")
@click.option("--versus", type=click.Path(), help="A second file of labels of the same items: estimate the difference.")
@click.option("--versus-gold", type=click.Path(), help="File of known answers for --versus.")
@click.option("--strata", type=click.Path(), help="File with the stratum that every item was drawn from.")
@click.option("--clusters", type=click.Path(), help="File with the cluster of every item, such as its prompt.")
@click.option("--sensitivity", type=float, help="Share of positive items that labels find, if that is known.")
@click.option("--specificity", type=float, help="Share of negative items that labels spare, if that is known.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Level of the interval.")
@click.option("--half-width", type=float, help="Also print how many known answers give an interval of this half-width.")
@click.option("--sample", type=int, help="Number of items to propose for known answers, written to --out.")
@click.option("--out", type=click.Path(), help="File for the items of --sample, as CSV.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(
    labels: str,
    gold: str | None,
    of: tuple[str, ...],
    half_width: float | None,
    sample: int | None,
    out: str | None,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate a share, a mean or a win rate over all items of LABELS, with an interval that is valid.

    The labels make the interval narrower than the known answers alone would; errors of the labels cannot make it wrong.
    """
    import consilience as cs
    from consilience.cli import _output

    if (sample is None) != (out is None):
        raise click.UsageError("--sample and --out go together")
    more = {name: options.pop(name) for name in ("by", "clusters", "strata", "versus", "versus_gold")}
    figures: dict[str, Any] = {name: options.pop(name) for name in ("sensitivity", "specificity", "level")}
    reading = options
    with _output.caught() as notes:
        with _output.reading(labels):
            annotations = cs.read(labels, **reading)
        if not isinstance(annotations, cs.Annotations):
            raise cs.exceptions.DataError(
                f"{labels} has labels of tokens in order; estimate is for items by themselves"
            )
        tables: dict[str, Any] = {
            name: None if path is None else cs.read_truth(path, encoding=reading["encoding"], like=annotations)
            for name, path in {
                "gold": gold,
                **{n: more[n] for n in ("by", "clusters", "strata", "versus_gold")},
            }.items()
        }
        versus = None if more["versus"] is None else cs.read(more["versus"], **reading)
        with _output.waiting("fitting the consensus"):
            found = cs.estimate(annotations, of=_target(of), versus=versus, seed=seed, **tables, **figures)
    _output.show_notes(notes)
    if out is not None and sample is not None:
        _write(found.which(sample, seed), out)
    if as_json:
        plan = {} if half_width is None else {"needed": found.needed(half_width)}
        _output.show_json(found.to_dict() | plan)
        return
    _show(found, half_width)
    if out is not None:
        click.echo(_output.safe(f"Written to {out}: items to get known answers for"))


def _target(of: tuple[str, ...]) -> Any:
    """Return what to estimate: nothing, a class, several, or values of classes."""
    if of and all("=" in each for each in of):
        pairs = [each.rsplit("=", 1) for each in of]
        try:
            return {name: float(value) for name, value in pairs}
        except ValueError:
            return list(of)  # classes whose names have an equals sign
    return None if not of else of[0] if len(of) == 1 else list(of)


def _write(frame: Any, path: str) -> None:
    import narwhals as nw

    from consilience.files import atomic_file

    with atomic_file(path) as fresh:
        nw.from_native(frame, eager_only=True).write_csv(fresh)


def _show(found: Estimate, half_width: float | None) -> None:
    import narwhals as nw
    from rich.console import Console

    from consilience.cli._output import safe, show_table

    lines = [str(found)]
    if found.value is None:
        lines.append("This is a range, not an interval: add known answers with --gold.")
    if found.humans is not None:
        h = found.humans
        lines.append(f"The {found.known} known answers alone: {h.value:.3f} ({h.low:.3f} to {h.high:.3f})")
        if found.saved:
            lines.append(f"The labels are worth {found.saved} more known answers.")
    for line in lines:
        click.echo(safe(line))
    if found.groups is not None:
        rows = nw.from_native(found.groups, eager_only=True)
        plain = [tuple(None if value != value else value for value in row) for row in rows.rows()]
        show_table(Console(highlight=False), "By group", plain, rows.columns, most=50)
    if half_width is not None:  # an error if no number is enough, after what is known
        click.echo(f"A half-width of {half_width:g} takes about {found.needed(half_width)} known answers.")
