"""The result of a run over an export with several questions: a consensus for each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consilience.exceptions import FormatError
from consilience.files import atomic_folder, check_checksums, write_checksums
from consilience.runs.consensus import SUMMARY, Consensus
from consilience.runs.label_table import TableFormat

__all__ = ["QuestionRuns", "folder_names"]

_FORMAT = {"format": "consilience.QuestionRuns", "version": 1}
#: Characters that any file system takes in names, and how many.
_STRANGE, _LONGEST = re.compile(r"[^A-Za-z0-9_-]+"), 60


@dataclass(frozen=True, eq=False, repr=False)
class QuestionRuns(Mapping[str, Consensus]):
    """Runs by question: ``runs["topic"]`` is a :class:`consilience.Consensus`."""

    runs: Mapping[str, Consensus]
    source: str = ""  #: name of the file
    unsupported: Mapping[str, str] = field(
        default_factory=dict
    )  #: kind of answer that cannot be aggregated, by question
    failed: Mapping[str, str] = field(default_factory=dict)  #: why the labels of a question cannot be used

    def __getitem__(self, question: str) -> Consensus:
        return self.runs[question]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        return f"<QuestionRuns: {', '.join(map(repr, self.runs))}>"

    @property
    def notes(self) -> list[str]:
        """What the user should know about questions without a run."""
        return [
            *(
                f"the answers to {name!r} are of type {kind!r}, which is not supported"
                for name, kind in self.unsupported.items()
            ),
            *(f"the question {name!r} was left out: {why}" for name, why in self.failed.items()),
        ]

    def summary(self) -> dict[str, Any]:
        """Return all runs in plain values, the content of ``summary.json``: a list with a summary for each question."""
        folders = folder_names(list(self.runs))
        return {
            **_FORMAT,
            "source": self.source,
            "questions": [
                {**run.summary(), "question": name, "folder": folders[name]} for name, run in self.runs.items()
            ],
            "unsupported": dict(self.unsupported),
            "failed": dict(self.failed),
        }

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        add: Callable[[Path], object] | None = None,
        labels: TableFormat | None = None,
    ) -> None:
        """Write all runs to a folder, each to a folder of its own inside, as :meth:`consilience.Consensus.save` does.

        The folder appears complete or not at all; an earlier run in its place is replaced in one step.

        Parameters
        ----------
        folder
            The folder to write.
        add
            Called with the new folder before it takes its place, to add files such as a report.
        labels
            Format of the tables of labels, as for a single run.
        """
        with atomic_folder(folder, SUMMARY) as fresh:
            for name, place in folder_names(list(self.runs)).items():
                self.runs[name].save(fresh / place, labels=labels)
            if add is not None:
                add(fresh)
            content = json.dumps(self.summary(), indent=2, ensure_ascii=False, default=float)
            (fresh / SUMMARY).write_text(content + "\n", "utf-8")
            write_checksums(fresh, leave_out=("report.html",))

    @staticmethod
    def is_saved_in(folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder holds runs of several questions."""
        return _content(Path(folder)).get("format") == _FORMAT["format"]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> QuestionRuns:
        """Read what :meth:`save` wrote."""
        from consilience.runs.loading import load_run

        place, content = Path(folder), _content(Path(folder))
        check_checksums(place)
        if {key: content.get(key) for key in _FORMAT} != _FORMAT:
            raise FormatError(f"{place} is not the folder of a run with several questions")
        try:
            folders = {str(run["question"]): str(run["folder"]) for run in content["questions"]}
            rest = str(content["source"]), dict(content["unsupported"]), dict(content["failed"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{place} is damaged: its {SUMMARY} does not list its questions") from error
        if folders != folder_names(list(folders)):  # a name from a file can point anywhere
            raise FormatError(f"{place} is damaged: its {SUMMARY} names other folders than its questions have")
        return cls({name: load_run(place / inside) for name, inside in folders.items()}, *rest)


def _content(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def folder_names(questions: Sequence[str]) -> dict[str, str]:
    """Return a name for the folder of each question, also where capitals do not count."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for question in questions:
        stem = _STRANGE.sub("_", question)[:_LONGEST].strip("_-") or "question"
        name, n = stem, 2
        while name.lower() in taken:
            name, n = f"{stem}-{n}", n + 1
        taken.add(name.lower())
        found[question] = name
    return found
