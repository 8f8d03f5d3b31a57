"""What a consensus computes when it is first asked for: its diagnosis and the health of its annotators."""

from __future__ import annotations

from typing import Any

from consilience.data.annotations import Annotations
from consilience.methods.base.running import Later
from consilience.runs.consensus import Consensus

__all__ = ["LATER", "diagnose_run", "examine_run"]


def diagnose_run(annotations: Annotations, consensus: Consensus) -> Any:
    """Diagnose the labels that a run came from."""
    from consilience.diagnose import diagnose

    return diagnose(annotations, consensus=consensus, seed=consensus.run["seed"] or 0)


def examine_run(annotations: Annotations, consensus: Consensus) -> Any:
    """Look for copies and changes in the labels that a run came from."""
    from consilience.diagnose.health import annotator_health

    return annotator_health(annotations, consensus)


#: What :func:`consilience.methods.base.running.run_method` attaches to a consensus.
LATER = Later(diagnose_run, examine_run)
