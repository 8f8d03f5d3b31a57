"""The whole report: all sections in one template, with style and script inside.

A policy in the page forbids fetching anything.  The same policy names the one script and the one style sheet by their
hashes, so that nothing from the data could run, even if it were not escaped.
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
from consilience.exceptions import DataError, ParameterError
from consilience.files import atomic_file
from consilience.report.confidence import histogram, thresholds
from consilience.report.crowd import crowd
from consilience.report.items import item_rows
from consilience.report.league import flags_of, is_serious, league
from consilience.report.overview import class_rows, computed, convergence, sentence, tiles, transitions, verdict
from consilience.report.view import View, quick_diagnosis
from consilience.runs.consensus import Consensus
from consilience.runs.numeric_run import NumericRun
from consilience.validation import whole

__all__ = ["quick_diagnosis", "render", "report"]

#: Default number of items to look at first.
_ITEMS = 60


def report(
    consensus: Any, path: str | os.PathLike[str], *, truth: Any = None, title: str | None = None, items: int = _ITEMS
) -> Path:
    """Write the report of a run: one HTML file that needs no network.

    Parameters
    ----------
    consensus
        A run, or the folder of one.
    path
        File to write; it appears whole or not at all.
    truth
        True labels, in any form that :meth:`consilience.Consensus.error_rate` takes, to show errors and calibration.
    title
        The heading; by default the name of the folder, if one is given.
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
    if isinstance(consensus, str | os.PathLike):
        from consilience.io import load

        title = title if title is not None else Path(consensus).resolve().name
        consensus = load(consensus)
    if not isinstance(consensus, Consensus):
        raise ParameterError(f"a report is of a run or of its folder, not of {type(consensus).__name__}")
    style, script = _file("style.css"), _file("script.js")
    frame: dict[str, Any] = {
        "title": shown(title, 120) if title else "Consensus",
        "style": Markup(style),
        "script": Markup(script),
        "policy": f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:",
        "version": consilience.__version__,
        "made": date.today().isoformat(),
        "run": consensus.run,
    }
    if isinstance(consensus, NumericRun):
        from consilience.report.numeric import numeric_content

        view = View(consensus, None, *(diagnosis or quick_diagnosis(consensus)))
        content = numeric_content(view, truth, int(items))
        return _environment().get_template("numeric.html").render(**frame, **content)
    codes = None if truth is None else consensus.codes_of_truth(truth)
    view = View(consensus, codes, *(diagnosis or quick_diagnosis(consensus)))
    calibrated = None
    if codes is not None:
        from consilience.report.calibration import calibration

        if not view.judged.any():
            raise DataError("no item has both a truth and a label: leave the truth out, or check its ids")
        calibrated = calibration(view)
    annotators = league(view)
    flagged = np.asarray([any(map(is_serious, flags_of(text))) for text in view.annotators["flags"]], bool)
    rows, more_classes = class_rows(view)
    return _environment().get_template("page.html").render(
        **frame,
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
        calibration=calibrated,
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
    """Return the hash of a text as a content security policy writes it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
