"""The part of a report that is about one run: what to do, annotators, items, figures, and technical details."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.diagnose.decision import decide, notes_beside
from consilience.exceptions import DataError
from consilience.report.confidence import histogram, thresholds
from consilience.report.crowd import crowd
from consilience.report.items import item_rows
from consilience.report.league import flags_of, is_serious, league
from consilience.report.overview import class_rows, computed, convergence, sentence, tiles, transitions, verdict
from consilience.report.view import View, quick_diagnosis
from consilience.runs.consensus import Consensus

__all__ = ["run_section"]


def run_section(
    consensus: Consensus,
    truth: Any,
    items: int,
    diagnosis: tuple[Any, str] | None,
    at: str = "",
    question: str = "",
) -> dict[str, Any]:
    """Return what the template shows of a run.

    ``at`` begins the ids of its elements; ``question`` is its heading, if there are several.
    """
    codes = None if truth is None else consensus.codes_of_truth(truth)
    view = View(consensus, codes, *(diagnosis or quick_diagnosis(consensus)))
    calibrated = None
    if codes is not None:
        from consilience.report.calibration import calibration

        if not view.judged.any():
            raise DataError("no item has both a truth and a label: leave the truth out, or check its ids")
        calibrated = calibration(view)
        measured = {"error_rate": 100.0 * view.error, "error_items": int(view.judged.sum())}
        consensus = consensus.with_run({**consensus.run, **measured})
    decision = decide(consensus, view.diagnosis)
    flagged = np.asarray([any(map(is_serious, flags_of(text))) for text in view.annotators["flags"]], bool)
    rows, more_classes = class_rows(view)
    return {
        "at": at,
        "question": question,
        "verdict": verdict(view, decision),
        "error": consensus.estimated_error,
        "to_talk_to": decision.to_talk_to,
        "tiles": tiles(view, int(flagged.sum())),
        "classes": rows,
        "more_classes": more_classes,
        "histogram": histogram(view),
        "thresholds": thresholds(view),
        "measured": view.truth is not None,
        "league": league(view),
        "crowd": crowd(view, flagged),
        "has_labels": consensus.annotations is not None,
        "items": item_rows(view, items),
        "labelled": int(view.labelled.sum()),
        "transitions": transitions(view),
        "convergence": convergence(view),
        "calibration": calibrated,
        "computed": computed(view),
        "warnings": [sentence(text) for text in notes_beside(consensus.warnings)[:50]],
    }
