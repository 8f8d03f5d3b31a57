"""What ``aggregate`` prints: the verdict, what to do, who needs attention, and which items to review."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from consilience.cli._output import safe, show_table

if TYPE_CHECKING:
    from consilience.runs.consensus import Consensus

__all__ = ["show_consensus"]

#: Labels with less confidence should be reviewed.
REVIEW = 0.7
_ROWS, _NAMES = 10, 8

_HEADLINES = {
    "identified": ("green", "The labels show who is right."),
    "weakly": ("yellow", "The labels show who is right only in part."),
    "not": ("red", "The labels do not show who is right."),
}

#: What a flag means, in words, and whether one should talk to the annotator; the first words of the flag decide.
_FLAGS = (
    ("spammer", "Answer as if at random", True),
    ("adversary", "Mostly wrong, perhaps by another rule", True),
    ("copies", "Answer as one, so they count once", True),
    ("changes over time", "Changed over time", True),
    ("biased towards", "Prefer one class where another is right", True),
    ("few labels", "Gave too few labels to be judged", False),
)


def show_consensus(consensus: Consensus, *, verbose: bool = False) -> None:
    """Print a run for the person who decides; ``verbose`` adds how it was computed, classes and annotators."""
    console = Console(highlight=False)
    for text, style in _headlines(consensus):
        console.print(Text(safe(text), style=style))
    attention = list(_attention(consensus))
    console.print(Text(_to_do(consensus, sum(len(names) for _, names, talk in attention if talk))))
    if attention:
        console.print()
        console.print(Text("Annotators who need attention", style="bold"))
        for what, names, _ in attention:
            shown = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
            console.print(Text(f"  {what} ({len(names)}): {shown}"))
    _show_doubtful(console, consensus, all_rows=verbose)
    console.print()
    console.print(Text(safe(_source(consensus.run))))
    if verbose:
        _show_details(console, consensus)
    else:
        console.print(Text("--verbose shows how this was computed, the classes and all annotators.", style="dim"))


def _headlines(consensus: Consensus) -> Iterator[tuple[str, str]]:
    """Yield the first lines and their styles: what known answers and truths say, the verdict, the estimated error."""
    run, error = consensus.run, consensus.estimated_error
    known = run.get("known_answers")
    if known and known["error"] > known["expected"] and any("known answers" in note for note in consensus.warnings):
        yield (
            f"On your {known['items']} known answers the labels alone are {known['error']:.0%} wrong; "
            f"they led to expect {known['expected']:.0%}. With what the known answers teach it is "
            f"{known['error_with']:.0%}.",
            "bold red",
        )
    verdict = consensus.verdict
    if verdict is not None:
        style, headline = _HEADLINES[verdict]
        yield headline, f"bold {style}"
        if verdict != "identified" and consensus.diagnose is not None:
            yield f"  {consensus.diagnosis.reasons[0]}", ""
            if consensus.diagnosis.advice:
                yield f"  {consensus.diagnosis.advice[0]}", ""
    basis = "from the labels alone" if error.basis == "labels" or not known else f"from {known['items']} known answers"
    what = "decisions on options" if run.get("answers") == "multi" else "labels"
    yield f"Estimated error: {error.value:.0%} of the {what} ({error.low:.0%} to {error.high:.0%}), {basis}.", ""
    if "error_rate" in run:
        yield f"Error against the truth given: {run['error_rate']:.2f} %", ""
    if "option_scores" in run:
        scores = run["option_scores"]
        found = ", ".join(f"{name} {100 * scores[name]:.2f} %" for name in ("precision", "recall", "f1"))
        yield f"Options against the truth given: {found}, {scores['error_rate']:.2f} % of the decisions wrong", ""
    if "spans" in run:
        found = ", ".join(f"{name} {100 * value:.2f} %" for name, value in run["spans"].items())
        yield f"Spans against the truth given: {found}", ""


def _to_do(consensus: Consensus, people: int) -> str:
    """Return what to accept and to review, and to how many annotators to talk."""
    columns = consensus.label_columns
    labelled = np.asarray(columns["label"].is_valid())
    confidence = np.asarray(columns["confidence"])[labelled]
    sure = confidence >= REVIEW
    parts = []
    trusted = consensus.verdict != "not"
    kinds = (("accept", sure), ("review", ~sure)) if trusted else (("check all", np.ones_like(sure)),)
    for verb, which in kinds:
        if which.any():
            parts.append(f"{verb} {int(which.sum()):,} (about {1.0 - confidence[which].mean():.0%} wrong)")
    if not labelled.all():
        parts.append(f"label {int((~labelled).sum()):,} that have no label")
    if people:
        parts.append(f"talk to {people} annotator{'s' * (people > 1)}")
    sentence = ", ".join(parts) + "."
    return sentence[:1].upper() + sentence[1:]


def _attention(consensus: Consensus) -> Iterator[tuple[str, list[str], bool]]:
    """Yield what is wrong, the annotators concerned, and whether to talk to them; everybody once."""
    names, *columns = consensus.annotator_columns.items()
    flags = dict(columns)["flags"].to_pylist()
    ids = names[1].to_pylist()
    left = set(range(len(ids)))
    for flag, what, talk in _FLAGS:
        which = [m for m in sorted(left) if any(word.startswith(flag) for word in flags[m].split("; "))]
        left -= set(which)
        if which:
            yield what, [_short(ids[m]) for m in which], talk


def _short(name: Any, most: int = 32) -> str:
    text = safe(str(name))
    return text if len(text) <= most else text[: most - 1] + "…"


def _show_doubtful(console: Console, consensus: Consensus, *, all_rows: bool) -> None:
    """Print the items to review first, if there are any; with ``all_rows``, also those that need no review."""
    import narwhals as nw

    doubtful = nw.from_native(consensus.doubtful(_ROWS), eager_only=True)
    at = doubtful.columns.index("confidence")
    rows = [tuple(_short(v) if isinstance(v, str) else v for v in row) for row in doubtful.rows()]
    rows = [row for row in rows if all_rows or row[at] < REVIEW]
    if rows:
        show_table(console, "Items to review first", rows, doubtful.columns)


def _source(run: Any) -> str:
    """Return what was aggregated, how, and how long it took."""
    items = f"{run['N']:,} items" + (f" with {run['edges']:,} edges" if "edges" in run else "")
    if "sequences" in run:
        items = f"{run['N']:,} tokens in {run['sequences']:,} sequence{'s' * (run['sequences'] != 1)}"
    kinds = {"open": "different answers", "multi": "options"}.get(run.get("answers"), "classes")
    state = "" if run["converged"] else ", NOT converged"
    read = f", read as {run['read_as']}" if "read_as" in run else ""
    return (
        f"{run['labels']:,} labels of {items} by {run['M']:,} annotator{'s' * (run['M'] != 1)}, "
        f"{run['K']:,} {kinds}{read}; "
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
        console.print(Text(safe(line)))
    if run.get("answers") not in ("open", "multi"):
        items = consensus.items_per_class()
        shares, prior = (items / max(int(items.sum()), 1)).tolist(), consensus.model.prior.tolist()
        classes = list(zip(consensus.model.classes, items.tolist(), shares, prior, strict=True))
        show_table(console, "Classes", classes, ("class", "items", "share", "prior"), most=len(classes))
    annotators = nw.from_native(consensus.annotators, eager_only=True).sort("information", descending=True)
    shown = annotators.drop("bias") if "bias" in annotators.columns else annotators
    show_table(console, "Annotators, most informative first", shown.rows(), shown.columns, most=200)
