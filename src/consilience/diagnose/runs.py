"""The verdict of a run: as a warning at once, and on first access in full, with the health of its annotators."""

from __future__ import annotations

from consilience.data.annotations import Annotations
from consilience.diagnose.diagnosis import Diagnosis, diagnose, first_look
from consilience.diagnose.health import annotator_health
from consilience.engine.streamed import StreamedConsensus
from consilience.exceptions import VerdictWarning, warn
from consilience.methods.base.running import Later
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import Consensus

__all__ = ["LATER", "diagnose_run", "warn_of_verdict"]


def diagnose_run(annotations: Annotations, consensus: Consensus) -> Diagnosis:
    """Diagnose the labels that a run came from, like :func:`diagnose` by default but without slow intervals."""
    return diagnose(annotations, consensus=consensus, intervals=False, seed=consensus.run["seed"] or 0)


def warn_of_verdict(consensus: Consensus) -> None:
    """Warn if the labels do not show who is right, or if annotators err together, so that votes may be better."""
    look = consensus.judged if isinstance(consensus, StreamedConsensus) else consensus
    if look is None or look.diagnose is None or look.annotations is None:
        return
    if isinstance(look.model, DawidSkene):
        alarm = first_look(look.annotations, look)
    else:
        found = look.diagnosis
        alarm = " ".join([found.headline, *found.reasons[:1]]) if found.verdict == "not" else None
    if alarm is not None:
        warn(f"{alarm} consensus.diagnosis says what to collect.", VerdictWarning)


#: For :func:`consilience.methods.base.running.run_method`.
LATER = Later(diagnose_run, annotator_health)
