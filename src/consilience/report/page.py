"""The whole report: the sections put into one template, with style and script inside, written in one step.

Nothing is fetched from anywhere: a policy in the page forbids it.  The same policy names the one script and the one
style sheet by their hashes, so that nothing from the data could ever run, even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import os
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import consilience
from consilience.data.names import shown
from consilience.exceptions import ParameterError
from consilience.files import atomic_file
from consilience.report.confidence import histogram, thresholds
from consilience.report.crowd import crowd
from consilience.report.fitting import calibration, convergence
from consilience.report.items import item_rows
from consilience.report.league import flags_of, is_serious, league
from consilience.report.overview import class_rows, computed, sentence, tiles, transitions, verdict
from consilience.report.view import look_at
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import TableFormat

__all__ = ["render", "report", "save_with_report"]

#: Items to look at that the page lists.
_ITEMS = 60


def report(
    consensus: Any, path: str | os.PathLike[str], *, truth: Any = None, title: str | None = None, items: int = _ITEMS
) -> Path:
    """Write the report of a run: one HTML file that needs no network.

    Parameters
    ----------
    consensus
        A run, or the folder that one was saved to.
    path
        Where to write it; the file appears whole or not at all.
    truth
        True labels, in any form that :meth:`consilience.Consensus.error_rate` takes, to show errors and calibration.
    title
        The heading; a run from a folder is called after it.
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


def save_with_report(
    consensus: Consensus,
    folder: str | os.PathLike[str],
    *,
    truth: Any = None,
    title: str | None = None,
    labels: TableFormat | None = None,
) -> None:
    """Write a run to a folder, as :meth:`consilience.Consensus.save` does, with its ``report.html`` inside."""

    def add(fresh: Path) -> None:
        report(consensus, fresh / "report.html", truth=truth, title=title)

    consensus.save(folder, add=add, labels=labels)


def render(consensus: Any, *, truth: Any = None, title: str | None = None, items: int = _ITEMS) -> str:
    """Give the report as text; see :func:`report`."""
    if items < 0:
        raise ParameterError(f"items must be a whole number ≥ 0, not {items!r}")
    if isinstance(consensus, str | os.PathLike):
        from consilience.io import load

        title = title if title is not None else Path(consensus).resolve().name
        consensus = load(consensus)
    if not isinstance(consensus, Consensus):
        raise ParameterError(f"a report is of a run or of its folder, not of {type(consensus).__name__}")
    view = look_at(consensus, truth)
    annotators = league(view)
    flagged = np.asarray([any(map(is_serious, flags_of(text))) for text in view.annotators["flags"]], bool)
    rows, more_classes = class_rows(view)
    style, script = _file("style.css"), _file("script.js")
    return _environment().get_template("page.html").render(
        title=shown(title, 120) if title else "Consensus",
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:",
        version=consilience.__version__,
        made=date.today().isoformat(),
        run=consensus.run,
        verdict=verdict(view),
        tiles=tiles(view, int(flagged.sum())),
        classes=rows,
        more_classes=more_classes,
        one_class=len(consensus.model.classes) == 1,
        histogram=histogram(view),
        thresholds=thresholds(view),
        measured=view.truth is not None,
        league=annotators,
        crowd=crowd(view, flagged),
        has_labels=consensus.annotations is not None,
        items=item_rows(view, int(items)),
        labelled=int(view.labelled.sum()),
        transitions=transitions(view),
        convergence=convergence(view),
        calibration=calibration(view),
        computed=computed(view),
        warnings=[sentence(text) for text in consensus.warnings[:50]],
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
    """Name a text as a content security policy does."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
