"""``consilience plan``: which annotator should label which item next, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from consilience.cli._help import Sectioned
from consilience.cli._input import LABELS_OR_RANKING
from consilience.cli.aggregate import ANSWERS, SEED, levels, reading_options

if TYPE_CHECKING:
    from consilience.diagnose.plan import Plan
    from consilience.inference.routing_result import Routing

__all__ = ["command", "per_annotator"]


@click.command(name="plan", cls=Sectioned, params=list(reading_options))
@click.argument("labels", type=LABELS_OR_RANKING)
@click.option(
    "--budget", type=float, help="Number of labels to buy, or their total cost; of comparisons, their number."
)
@click.option("--costs", help="Cost of a label: a number, or a file with annotator and cost.")
@click.option("--capacity", help="Most labels of an annotator: a number, or a file with annotator and capacity.")
@click.option(
    "--allow-flagged",
    is_flag=True,
    help="Ask flagged annotators too: spammers, adversaries, copies, and those who got worse.",
)
@click.option(
    "--questions", default=10, show_default=True, help="Number of items to suggest whose truth is worth knowing."
)
@click.option("--gold", type=click.Path(), help="File of known answers (item, label), which are kept as they are.")
@click.option("--answers", type=ANSWERS, default="auto", show_default=True, help="What answers mean, as for aggregate.")
@click.option("--order", metavar="LOW,…,HIGH", help="The levels of a scale from low to high, separated by commas.")
@click.option(
    "--ceiling",
    type=float,
    help="Instead of a budget: ask cheap judges first, others where these are unsure, with at most this error.",
)
@click.option("--delta", type=float, help="With --ceiling: probability that it is exceeded.  [default: 0.05]")
@click.option("--person", type=float, help="With --ceiling: cost of a person, who is asked where judges are unsure.")
@click.option("--method", default="auto", show_default=True, help="Method whose model is used; +em refines any.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--out", type=click.Path(), help="File for the plan, as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of tables.")
def command(
    labels: str,
    budget: float | None,
    costs: str | None,
    capacity: str | None,
    allow_flagged: bool,
    questions: int,
    gold: str | None,
    answers: str,
    order: str | None,
    ceiling: float | None,
    delta: float | None,
    person: float | None,
    method: str,
    seed: int,
    out: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Plan which annotator should label which item next, given LABELS, a table with a row for each label.

    If LABELS compares items (columns left, right, winner) or is the folder of a ranking, plan which items to compare.

    Labels that make annotators comparable come first, then those that are most informative for their cost.  With
    --ceiling, plan in which order to ask judges about every item, and from which confidence on to accept a label; the
    error is verified on known answers (--gold).
    """
    import consilience as cs
    from consilience.cli import _output

    if (budget is None) == (ceiling is None):
        raise click.UsageError("give either --budget or --ceiling")
    if ceiling is None and (delta is not None or person is not None):
        raise click.UsageError("--delta and --person need --ceiling")
    if budget is not None and _compares(labels, reading["encoding"]):
        if costs or capacity or gold:
            raise click.UsageError("--costs, --capacity and --gold are for labels; comparisons need a budget only")
        _plan_comparisons(labels, budget, seed, out, as_json)
        return
    with _output.quiet():  # the notes are printed below
        with _output.reading(labels):
            annotations = cs.read(labels, **reading)
        if not isinstance(annotations, cs.Annotations):
            raise cs.exceptions.DataError(f"{labels} has labels of tokens in order; plan is for items by themselves")
        if gold is not None:
            annotations = annotations.with_gold(cs.read_truth(gold, encoding=reading["encoding"], like=annotations))
        own = annotations.origin.annotator
        price = per_annotator(costs, "cost", own, reading["encoding"])
        if ceiling is not None:
            with _output.waiting("planning"):
                routing = cs.route(
                    annotations,
                    costs=price,
                    person=person,
                    ceiling=ceiling,
                    delta=0.05 if delta is None else delta,
                    seed=seed,
                )
            _show_routing(routing, annotations.origin.notes, out, as_json)
            return
        assert budget is not None
        with _output.waiting("planning"), _output.caught() as sentences:
            found = cs.plan(
                annotations,
                budget,
                costs=price,
                capacity=per_annotator(capacity, "capacity", own, reading["encoding"]),
                allow_flagged=allow_flagged,
                gold=questions,
                answers=answers,
                order=levels(order),
                method=method,
                seed=seed,
            )
    if out is not None:
        found.save(out)
    _output.show_notes(list(dict.fromkeys([*found.origin.notes, *sentences, *found.notes])))
    if as_json:
        _output.show_json(found.to_dict())
        return
    _show(found)
    if out is not None:
        click.echo(f"\nWritten to {out}: {len(found)} labels")


def _compares(labels: str, encoding: str) -> bool:
    from consilience.ranking.reading import holds_comparisons
    from consilience.ranking.result import Ranking

    return Ranking.is_saved_in(labels) or holds_comparisons(labels, encoding)


def _plan_comparisons(labels: str, budget: float, seed: int, out: str | None, as_json: bool) -> None:
    import narwhals as nw
    from rich.console import Console

    import consilience as cs
    from consilience.cli import _output

    with _output.caught() as sentences, _output.waiting("planning"):
        ranking = cs.Ranking.load(labels) if cs.Ranking.is_saved_in(labels) else cs.rank(labels, seed=seed)
        found = cs.plan(ranking, budget)
    if out is not None:
        found.save(out)
    _output.show_notes([*dict.fromkeys([*sentences, *found.notes])])
    if as_json:
        _output.show_json(found.to_dict())
        return
    click.echo(f"{len(found)} comparisons")
    wrong = f"{found.wrong_now:.3g} now, {found.wrong_then:.3g} then"
    click.echo(f"expected pairs in the wrong order: {wrong}, if the model is right")
    rows = nw.from_native(found.table, eager_only=True)
    _output.show_table(Console(highlight=False), "Comparisons to make", rows.rows(), rows.columns)
    if out is not None:
        click.echo(_output.safe(f"\nWritten to {out}: {len(found)} comparisons"))


def _show_routing(found: Routing, notes: Sequence[str], out: str | None, as_json: bool) -> None:
    import narwhals as nw

    from consilience.cli import _output
    from consilience.files import atomic_file

    _output.show_notes(list(notes))
    if out is not None:
        with atomic_file(out) as fresh:
            nw.from_native(found.table, eager_only=True).write_csv(fresh)
    if as_json:
        _output.show_json(found.to_dict())
        return
    for line in str(found).splitlines():
        click.echo(_output.safe(line))
    if out is not None:
        click.echo(_output.safe(f"Written to {out}: {len(found.decided)} stages"))


def per_annotator(given: str | None, what: str, annotator: str, encoding: str) -> Any:
    """Return a number, or the content of a file with an annotator column and one of numbers."""
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        pass
    from consilience.io.tables import read_per_annotator

    return read_per_annotator(given, what, annotator=annotator, encoding=encoding)


def _show(found: Plan) -> None:
    import narwhals as nw
    from rich.console import Console

    from consilience.cli._output import show_table
    from consilience.data.names import counted

    console = Console(highlight=False, soft_wrap=True)
    if not len(found):
        console.print(f"no label to buy: 0 of {found.budget:g} spent", markup=False)
        _show_questions(found)
        return
    labels = counted(len(found), "label")
    items, people = (len(set(who.tolist())) for who in (found.item, found.annotator))
    console.print(
        f"{labels} of {counted(items, 'item')} by {counted(people, 'annotator')}, "
        f"{found.spent:g} of {found.budget:g} spent",
        markup=False,
    )
    if found.joining:
        which = "first label makes" if found.joining == 1 else f"first {found.joining:,} labels make"
        console.print(f"the {which} annotators comparable", markup=False)
    digits = ".3g" if found.measure == "mean absolute error" else ".0f"
    console.print(
        f"expected {found.measure}: {found.wrong_now:{digits}} now, {found.wrong_then:{digits}} then, if the model is "
        "right",
        markup=False,
    )
    tables = Console(highlight=False)
    # gains are in the file and in JSON; costs are shown if they differ
    hidden = {"gain"} if len(set(found.cost.tolist())) > 1 else {"gain", "cost"}
    for title, frame in (("Labels to buy", found.table), ("Who is asked", found.load)):
        rows = nw.from_native(frame, eager_only=True)
        if len(rows):
            shown = rows.select([name for name in rows.columns if name not in hidden])
            show_table(tables, title, shown.rows(), shown.columns)
    _show_questions(found)


def _show_questions(found: Plan) -> None:
    from rich.console import Console
    from rich.text import Text

    from consilience.cli._output import safe

    console = Console(highlight=False)
    if len(found.gold_items):
        names = ", ".join(safe(str(found.item_ids[n])) for n in found.gold_items.tolist())
        console.print("\nItems whose truth is worth knowing", style="bold")
        console.print(Text(f"The true answers would show who is wrong: {names}"))
