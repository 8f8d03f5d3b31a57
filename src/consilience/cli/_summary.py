"""What ``aggregate`` prints: the verdict, what to do, who needs attention, and which items to review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from consilience.cli._output import safe, show_table, show_text
from consilience.data.names import counted, cut
from consilience.diagnose.decision import REVIEW, Decision, decide, too_vague

if TYPE_CHECKING:
    from consilience.runs.consensus import Consensus
    from consilience.runs.question_runs import QuestionRuns

__all__ = ["show_consensus", "show_questions"]

#: Limits on the items to review, for one question and for each of several, and on names.
_ROWS, _FEW_ROWS, _NAMES = 10, 3, 8
#: Width of the table of items beside the name of an item, and least width of such a name.
_REST, _LEAST = 52, 20

_STYLES = {"identified": "bold green", "weakly": "bold yellow", "not": "bold red"}
_ANSWERS = {"identified": "shown", "weakly": "partly shown", "not": "not shown"}


def show_consensus(consensus: Consensus, *, verbose: bool = False) -> None:
    """Print a run for the person who decides; ``verbose`` adds how it was computed, classes and annotators."""
    console = Console(highlight=False)
    _show_run(console, consensus, _decision(consensus), _ROWS, verbose)
    if not verbose:
        console.print(Text("--verbose shows how this was computed, the classes and all annotators.", style="dim"))


def show_questions(runs: QuestionRuns, *, verbose: bool = False) -> None:
    """Print the runs of several questions: an overview, and then each."""
    console = Console(highlight=False)
    decisions = {name: _decision(run) for name, run in runs.items()}
    rows = []
    for name, decision in decisions.items():
        answer = "contradicted" if decision.contradicted else _ANSWERS.get(decision.tone, "-")
        error = runs[name].estimated_error
        share = "?" if too_vague(error) else f"{error.value:.0%}"
        items = {part.verb: part.items for part in decision.parts}
        review = items.get("review", items.get("check all", 0))
        counts = items.get("accept", 0), review, decision.to_talk_to
        rows.append((_short(name, 24), answer, share, *counts))
    columns = "question", "who is right", "error", "accept", "review", "talk to"
    show_table(console, "Questions", rows, columns, most=len(rows))
    for name, decision in decisions.items():
        console.print()
        console.rule(Text(_short(name, 60), style="bold"), align="left", style="dim")
        _show_run(console, runs[name], decision, _ROWS if verbose else _FEW_ROWS, verbose)
    if not verbose:
        console.print()
        console.print(Text("--verbose shows how this was computed, the classes and all annotators.", style="dim"))


def _decision(consensus: Consensus) -> Decision:
    return decide(consensus, None if consensus.diagnose is None else consensus.diagnosis)


def _show_run(console: Console, consensus: Consensus, decision: Decision, rows: int, verbose: bool) -> None:
    if decision.headline:
        show_text(console, decision.headline, style=_STYLES[decision.tone])
    if decision.second:
        console.print(Text(decision.second))
    if decision.reason or decision.contradicted:
        for sentence in filter(None, (decision.reason, *decision.collect[:1])):
            show_text(console, sentence, first="  ")
    for sentence in (decision.error, *decision.measured, decision.to_do):
        show_text(console, sentence)
    if "classifier" in consensus.run:
        show_text(console, _classifier(consensus.run["classifier"]))
    if decision.attention:
        console.print()
        console.print(Text("Annotators who need attention", style="bold"))
        for each in decision.attention:
            names = [_short(name) for name in each.names]
            shown = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
            show_text(console, f"{each.what} ({len(names)}): {shown}", first="  ")
    _show_doubtful(console, consensus, rows, all_rows=verbose)
    if rows == _ROWS:
        console.print()
        show_text(console, _source(consensus.run))
    if verbose:
        _show_details(console, consensus)


def _classifier(report: Any) -> str:
    """Return in a sentence whether features or a classifier's probabilities count, and what they gain."""
    hits = ""
    if "hits" in report:
        hits = f" (labels predicted right: {report['hits']:.1%} with it, {report['hits_without']:.1%} without)"
    return f"The classifier {'counts' if report['used'] else 'does not count'}: {report['why']}{hits}."


def _short(name: Any, most: int = 32) -> str:
    return cut(safe(str(name)), most)


def _show_doubtful(console: Console, consensus: Consensus, most: int, *, all_rows: bool) -> None:
    """Print the items to review first, if there are any; with ``all_rows``, also those that need no review."""
    import narwhals as nw

    doubtful = nw.from_native(consensus.doubtful(most), eager_only=True)
    columns = doubtful.columns
    at = columns.index("confidence")
    rows = [row for row in doubtful.rows() if all_rows or row[at] < REVIEW]
    texts: list[str | None] = []
    if consensus.origin.texts is not None:
        texts = consensus.origin.texts.of([row[0] for row in rows]).to_pylist()
    most = max(console.width - _REST, _LEAST)  # a long name on one line
    rows = [tuple(_cell(name, value, most) for name, value in zip(columns, row, strict=True)) for row in rows]
    if rows:
        lines = [safe(" ".join((text or "").split())) for text in texts]
        show_table(console, "Items to review first", rows, columns, texts=lines)


def _cell(name: str, value: Any, most: int) -> Any:
    """Return a value of the table of items; labels that are numbers are not rounded."""
    if isinstance(value, float) and value == value and name in ("label", "runner_up", "median"):
        value = str(value)
    return _short(value, most) if isinstance(value, str) else value


#: What the different labels are called, by kind of answers.
_KINDS = {"open": ("different answer",), "ordinal": ("level",), "multi": ("option",)}


def _source(run: Any) -> str:
    """Return what was aggregated, how, and how long it took."""
    items = counted(run["N"], "item") + (f" with {counted(run['edges'], 'edge')}" if "edges" in run else "")
    if "sequences" in run:
        items = f"{counted(run['N'], 'token')} in {counted(run['sequences'], 'sequence')}"
    kinds = counted(run["K"], *_KINDS.get(run.get("answers", "nominal"), ("class", "es")))
    state = "" if run["converged"] else ", NOT converged"
    read = f", read as {run['read_as']}" if "read_as" in run else ""
    return (
        f"{counted(run['labels'], 'label')} of {items} by {counted(run['M'], 'annotator')}, {kinds}{read}; "
        f"{run['method']}, {run['seconds']:.2f} s{state}"
    )


def _show_details(console: Console, consensus: Consensus) -> None:
    """Print how the run was computed, the classes and all annotators."""
    import narwhals as nw

    run = consensus.run
    lines = [f"{run['iterations']} passes, log-likelihood {run['log_likelihood']:.4f}"]
    if "why" in run:
        lines.append(f"{run['chosen']}: {run['why']}")
    if consensus.effective_annotators is not None:
        most = "" if consensus.health.by_gold else "at most "
        lines.append(f"worth {most}{consensus.effective_annotators:.1f} independent annotators")
    for line in lines:
        show_text(console, line)
    if run.get("answers") not in ("open", "multi"):
        items = consensus.items_per_class()
        shares, prior = (items / max(int(items.sum()), 1)).tolist(), consensus.model.prior.tolist()
        classes = list(zip(map(str, consensus.model.classes), items.tolist(), shares, prior, strict=True))
        title, kind = ("Levels", "level") if run.get("answers") == "ordinal" else ("Classes", "class")
        show_table(console, title, classes, (kind, "items", "share", "prior"), most=200)
    annotators = nw.from_native(consensus.annotators, eager_only=True)
    order, title, hidden = "information", "Annotators, most informative first", {"bias"}
    if run.get("silence") == "informative":  # those who name one class inform by speaking, not by what they say
        order, title, hidden = "accuracy", "Annotators, most accurate first", {"bias", "information"}
    shown = annotators.sort(order, descending=True, nulls_last=True)
    shown = shown.select([name for name in shown.columns if name not in hidden])
    show_table(console, title, shown.rows(), shown.columns, most=200)
