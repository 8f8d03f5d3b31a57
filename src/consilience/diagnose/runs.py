"""What a consensus computes on first access: its diagnosis and the health of its annotators."""

from __future__ import annotations

from consilience.data.annotations import Annotations
from consilience.diagnose.diagnosis import Diagnosis, diagnose
from consilience.diagnose.health import annotator_health
from consilience.methods.base.running import Later
from consilience.runs.consensus import Consensus

__all__ = ["LATER", "diagnose_run"]


def diagnose_run(annotations: Annotations, consensus: Consensus) -> Diagnosis:
    """Diagnose the labels that a run came from, like :func:`diagnose` by default but without slow intervals."""
    return diagnose(annotations, consensus=consensus, intervals=False, seed=consensus.run["seed"] or 0)


#: For :func:`consilience.methods.base.running.run_method`.
LATER = Later(diagnose_run, annotator_health)
