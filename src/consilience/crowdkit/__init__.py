"""The classes of crowd-kit under their names, with their parameters and results, computed by this library.

Change ``from crowdkit.aggregation import DawidSkene`` to ``from consilience.crowdkit import DawidSkene``.  Data are
pandas frames with the columns ``task``, ``worker`` and ``label``.  The how-to "Migrate from crowd-kit" lists the
differences.
"""

from __future__ import annotations

from consilience.crowdkit.binary_relevance import BinaryRelevance
from consilience.crowdkit.dawid_skene import DawidSkene, OneCoinDawidSkene
from consilience.crowdkit.glad import GLAD
from consilience.crowdkit.kos import KOS
from consilience.crowdkit.pairwise import BradleyTerry, NoisyBradleyTerry
from consilience.crowdkit.votes import GoldMajorityVote, MajorityVote, Wawa, ZeroBasedSkill

__all__ = [
    "GLAD",
    "KOS",
    "BinaryRelevance",
    "BradleyTerry",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "NoisyBradleyTerry",
    "OneCoinDawidSkene",
    "Wawa",
    "ZeroBasedSkill",
]
