"""Reading the folder of a run of any kind."""

from __future__ import annotations

import os

from consilience.runs.consensus import Consensus
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun
from consilience.runs.ordinal_run import OrdinalRun
from consilience.runs.sequence_run import SequenceRun

__all__ = ["load_run"]


def load_run(folder: str | os.PathLike[str]) -> Consensus:
    """Read a run that was saved with :meth:`consilience.Consensus.save`."""
    kinds: tuple[type[SequenceRun | OpenRun | OrdinalRun | MultiRun | NumericRun], ...]
    kinds = (SequenceRun, OpenRun, OrdinalRun, MultiRun, NumericRun)
    kind = next((each for each in kinds if each.is_saved_in(folder)), Consensus)
    return kind.load(folder)
