"""The whole report: all sections in one template, with style and script inside.

A policy in the page forbids fetching anything.  The same policy names the one script and the one style sheet by their
hashes, so that nothing from the data could run, even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import consilience
from consilience.audit.result import Audit
from consilience.data.names import shown
from consilience.exceptions import ParameterError
from consilience.files import atomic_file
from consilience.ranking.result import Ranking
from consilience.report.overview import sentence
from consilience.report.section import run_section
from consilience.report.view import View, quick_diagnosis
from consilience.runs.consensus import Consensus
from consilience.runs.loading import load_run
from consilience.runs.numeric_run import NumericRun
from consilience.runs.question_runs import QuestionRuns
from consilience.validation import whole

__all__ = ["quick_diagnosis", "render", "report"]

#: Default number of items to look at first; of several questions together, and the fewest of each.
_ITEMS, _ITEMS_IN_ALL, _FEWEST_ITEMS = 30, 60, 10


def report(
    consensus: Any, path: str | os.PathLike[str], *, truth: Any = None, title: str | None = None, items: int = _ITEMS
) -> Path:
    """Write the report of a run: one HTML file that needs no network.

    Parameters
    ----------
    consensus
        A run, a ranking, or the folder of one; or an audit.  The runs of several questions make one report with a
        section for each.
    path
        File to write; it appears whole or not at all.
    truth
        True labels, in any form that :meth:`consilience.Consensus.error_rate` takes, to show errors and calibration.
        For several questions, a mapping from question to such truths.
    title
        The heading; by default the question, or else the file or the folder that the run came from.
    items
        How many of the items to look at first are listed.

    Returns
    -------
    The path.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(200, 10, 2, labels_per_item=5, experts=0.3)
    >>> cs.report(cs.aggregate(crowd.annotations), "report.html", truth=crowd.truth)  # doctest: +SKIP
    """
    text = render(consensus, truth=truth, title=title, items=items)
    with atomic_file(path) as temporary:
        temporary.write_text(text, "utf-8")
    return Path(path)


def render(
    consensus: Any,
    *,
    truth: Any = None,
    title: str | None = None,
    items: int = _ITEMS,
    diagnosis: tuple[Any, str] | None = None,
) -> str:
    """Return the report as text; see :func:`report`.  ``diagnosis`` may be a result of :func:`quick_diagnosis`."""
    whole("items", items, least=0)
    folder = ""
    if isinstance(consensus, str | os.PathLike):
        folder = Path(consensus).resolve().name
        kind: Any = next((each for each in (QuestionRuns, Ranking) if each.is_saved_in(consensus)), None)
        consensus = load_run(consensus) if kind is None else kind.load(consensus)
    if isinstance(consensus, QuestionRuns):
        return _page(title or consensus.source or folder, consensus.source, *_questions(consensus, truth, items))
    if isinstance(consensus, Ranking):
        from consilience.report.ranking import ranking_content

        if truth is not None:
            raise ParameterError("a ranking has no truth to compare with; leave it out")
        template = _environment().get_template("ranking.html")
        frame = _frame(title or folder or "Ranking", str(consensus.run.get("source", "")))
        return template.render(**frame, **ranking_content(consensus, int(items)))
    if isinstance(consensus, Audit):
        from consilience.report.judges import audit_content

        if truth is not None:
            raise ParameterError("an audit has its known answers already; leave truth out")
        template = _environment().get_template("audit.html")
        return template.render(**_frame(title or "Audit of the judges", ""), **audit_content(consensus))
    if not isinstance(consensus, Consensus):
        raise ParameterError(f"a report is of a run or of its folder, not of {type(consensus).__name__}")
    source = str(consensus.run.get("source", ""))
    if isinstance(consensus, NumericRun):
        from consilience.report.numeric import numeric_content

        view = View(consensus, None, *(diagnosis or quick_diagnosis(consensus)))
        frame = _frame(title or consensus.question or source or folder or "Consensus", source)
        template = _environment().get_template("numeric.html")
        return template.render(**frame, run=consensus.run, **numeric_content(view, truth, int(items)))
    section = run_section(consensus, truth, items, diagnosis)
    return _page(title or consensus.question or source or folder or "Consensus", source, [section])


def _questions(runs: QuestionRuns, truth: Any, items: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a section for each question, and notes on those without."""
    most = max(min(items, _ITEMS_IN_ALL // max(len(runs), 1)), min(items, _FEWEST_ITEMS))
    sections = []
    for n, (name, run) in enumerate(runs.items(), 1):
        sections.append(run_section(run, (truth or {}).get(name), most, None, f"q{n}-", name))
    return sections, runs.notes


def _frame(title: str, source: str) -> dict[str, Any]:
    """Return what every page shows, whatever the run."""
    style, script = _file("style.css"), _file("script.js")
    return {
        "title": shown(title, 120),
        "source": shown(source, 120) if source and source != title else "",
        "style": Markup(style),
        "script": Markup(script),
        "policy": f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:",
        "version": consilience.__version__,
        "made": date.today().isoformat(),
    }


def _page(title: str, source: str, sections: list[dict[str, Any]], notes: Sequence[str] = ()) -> str:
    template = _environment().get_template("run.html")
    return _environment().get_template("page.html").render(
        **_frame(title, source),
        overview=sections if sections[0]["question"] else [],
        notes=[sentence(note) for note in notes],
        sections=[Markup(template.render(section)) for section in sections],
    )  # fmt: skip


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("consilience.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text("utf-8").strip()


def _hash(text: str) -> str:
    """Return the hash of a text as a content security policy writes it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
