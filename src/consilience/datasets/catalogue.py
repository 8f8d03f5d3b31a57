"""The public data that consilience is tested on: source, licence and checked counts of each set.

The entries are in ``catalogue.toml``.  Only the table of 1979 comes with the library; the catalogue knows enough of the
other sets to find them and to notice when a file is not the one that was tested.

======================= ================================================
count                   meaning
======================= ================================================
``N``, ``M``, ``K``     items, annotators, classes that have labels
``labels``              rows of the label file, repeated labels included
``dup_pairs``           labels that repeat an (item, annotator) pair
``truth``               items whose truth is known
``truth_with_labels``   those of them that have a label
======================= ================================================
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from consilience.data.annotations import Duplicates

__all__ = ["CATALOGUE", "CROWD_KINDS", "Answers", "CrowdName", "DatasetInfo", "Kind"]

Kind = Literal[
    "crowd",
    "timed crowd",
    "scale",
    "labelling functions",
    "language models",
    "numeric",
    "multi-label",
    "comparisons",
    "classifier",
    "sequence",
    "graph",
    "table",
    "ratings",
    "matrix",
]

#: The kinds that load as annotations and truth.
CROWD_KINDS: tuple[Kind, ...] = ("crowd", "timed crowd", "scale", "labelling functions", "language models")

Answers = Literal["nominal", "ordinal", "numeric", "multi", "open"]

#: The sets that load as annotations and truth, named so that a type checker knows what ``load`` returns.
CrowdName = Literal[
    "adult2",
    "bluebird",
    "cdr_cid_sentence",
    "dawid_skene",
    "dices350",
    "dog52",
    "duck",
    "fact_eval",
    "labelme",
    "leaves",
    "metaphor_novelty",
    "music",
    "product",
    "reuters_amt",
    "rte",
    "sentence_polarity",
    "snow_valence2",
    "stem_verify",
    "trec",
    "weather_amt",
    "zencrowd_all",
    "zencrowd_us",
    "weather_amt_seconds",
    "coal_subsidy",
    "convabuse",
    "ws_rna",
    "ws_semeval",
    "ws_spouse",
    "ws_trec",
    "ws_yoruba",
    "ws_youtube",
    "judge_mtbench_faireval_llmeval2",
    "llm_mmlu_pro",
    "llmbar",
    "llmjudge_trecdl23",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """What is known about one set of data.

    Parameters
    ----------
    name
        Name of the set and of its folder.
    kind
        What it holds: one of :data:`Kind`.  "scale" is a crowd with ordered labels, "timed crowd" one with the seconds
        spent on each label, "classifier" has answers of people and probabilities of a model.
    description
        What it is, in a sentence or two.
    repository, commit, paths
        Where the files come from; ``commit`` is empty if there is none.
    licence
        What the source says about use, or that it says nothing.
    counts
        Checked when the set is loaded, as far as the files show them.
    files
        Names of the files in the set's folder; for a crowd, the labels come first and the truth second.
    answers
        "nominal"; "ordinal" if labels are ordered; "numeric"; "multi" if an answer can name several options, joined by
        ``|``; "open" if a label means something else for every item.
    silence
        What it means that an annotator gave no label: "random", "informative", or the label it stands for.
    duplicates
        What is done with repeated labels; see :meth:`~consilience.Annotations.from_frame`.
    shapes
        For kinds that do not load as a crowd: the counts that the axes of each part must have.
    bundled
        Whether the files come with the library.
    """

    name: str
    kind: Kind
    description: str
    repository: str
    commit: str = ""
    paths: tuple[str, ...] = ()
    licence: str
    counts: Mapping[str, int]
    files: tuple[str, ...]
    answers: Answers = "nominal"
    silence: str = "random"
    duplicates: Duplicates = "last"
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bundled: bool = False

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        return re.split(r"(?<=[.?])(?<!et al\.) (?=[(A-Z0-9])", self.description)[0].rstrip(".")

    @property
    def source(self) -> str:
        """Repository, commit, paths and licence in one line."""
        commit = f", commit {self.commit}" if self.commit else ""
        paths = f", {' and '.join(self.paths)}" if self.paths else ""
        return f"{self.repository}{commit}{paths} (licence: {self.licence})"


def _entries() -> dict[str, DatasetInfo]:
    document = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    entries: dict[str, DatasetInfo] = {}
    for name, block in document["sets"].items():
        entry: dict[str, Any] = {**document["sources"].get(block.pop("source", None), {}), **block}
        entry |= {key: tuple(entry[key]) for key in ("paths", "files") if key in entry}
        entry["shapes"] = {part: tuple(axes) for part, axes in block.get("shapes", {}).items()}
        entries[name] = DatasetInfo(name=name, **entry)
    return entries


#: Every known set by name, crowds first.
CATALOGUE: Mapping[str, DatasetInfo] = MappingProxyType(_entries())
