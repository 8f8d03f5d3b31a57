"""What a consensus computes on first access: its diagnosis and the health of its annotators."""

from __future__ import annotations

from consilience.data.annotations import Annotations
from consilience.diagnose.diagnosis import Diagnosis, diagnose
from consilience.diagnose.health import annotator_health
from consilience.methods.base.running import Later
from consilience.runs.consensus import Consensus

__all__ = ["LATER", "diagnose_run"]

#: Draws of the bootstrap, and steps of one of its passes beyond which there is none.
_DRAWS, _MOST_STEPS = 20, 1_000_000
#: Beyond so many classes there is no search for the shortfall of the sufficiently scattered condition.
_MOST_CLASSES = 6
#: Approximate number of labels in one draw of the bootstrap.
_LABELS_IN_DRAW = 200_000


def diagnose_run(annotations: Annotations, consensus: Consensus) -> Diagnosis:
    """Diagnose the labels that a run came from, as thoroughly as a second or two allow."""
    a, K = annotations, annotations.n_classes
    steps = min(a.n_labels, _LABELS_IN_DRAW) * K + 10 * a.n_annotators * K * K
    return diagnose(
        a,
        consensus=consensus,
        bootstrap=_DRAWS if steps <= _MOST_STEPS else 0,
        search=K <= _MOST_CLASSES,
        intervals=False,
        seed=consensus.run["seed"] or 0,
    )


#: For :func:`consilience.methods.base.running.run_method`.
LATER = Later(diagnose_run, annotator_health)
