"""A stream in a folder: the folder of its run, and ``stream.npz`` with what is needed to continue; never a pickle.

A stream can also continue a run of :func:`consilience.aggregate`: its posteriors and expected counts are the sums of
the past.  If it has few enough labels, these are held as if they were new.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from consilience.exceptions import FolderError, FormatError, MethodError, ParameterError
from consilience.files import load_arrays, save_arrays
from consilience.moments.cooccurrence import CoOccurrences, pair_moments
from consilience.runs.consensus import Consensus
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun
from consilience.runs.ordinal_run import OrdinalRun
from consilience.runs.question_runs import QuestionRuns
from consilience.runs.sequence_run import SequenceRun
from consilience.streams.archive import Archive
from consilience.streams.learning import Learning, check_limits
from consilience.streams.names import Vocabulary, lots
from consilience.streams.solve import STREAMED

__all__ = ["load_stream", "save_stream"]

_FILE = "stream.npz"
_FORMAT = {"format": "consilience.Stream", "version": 1}
_ITEMS = ("n", "gold", "since", "mask", "likelihood", "lot")
_SUMS = ("n_labels", "log_likelihood", "log_keep")
_PLAIN = ("method", "seed", "parameters", "forget", "window", "remember", "updates", "seconds", "notes")

S = TypeVar("S", bound=Learning)

#: Kinds of runs that need all labels at once.
_WHOLE: dict[Any, str] = {
    SequenceRun: "sequences",
    NumericRun: "numbers",
    OrdinalRun: "levels of a scale",
    MultiRun: "sets of options",
    OpenRun: "open answers",
    QuestionRuns: "several questions",
}


def save_stream(
    stream: Learning, folder: str | os.PathLike[str], run: Consensus, add: Callable[[Path], object] | None = None
) -> None:
    """Write the run of a stream, with the state of the stream."""
    place = Path(folder).resolve()
    if stream.place is not None and stream.place[0] == place and stream.place[1] != _state_of(place):
        raise FolderError(f"{folder} has changed since it was loaded; load it again, and update that")
    held, past = stream._columns(), stream._past
    content = {name: getattr(stream, name) for name in _PLAIN} | {name: getattr(past, name) for name in _SUMS}
    remembered = stream._archive.tidy()
    content["turn"] = stream._archive.turn
    # the posterior of all other settled items is in the run
    opened = np.unique(held[0])
    opened = opened[past.is_settled(opened)]
    arrays: dict[str, Any] = {name: past.items[name] for name in _ITEMS}
    arrays |= {
        "held": held,
        "archive": remembered,
        "counts": past.annotators["counts"],
        "class_counts": past.class_counts,
        "latest_classes": past.latest_classes,
        "open": opened,
        "open_belief": past.items["belief"][opened],
    }
    if "votes" in past.items:
        arrays |= {"votes": past.items["votes"], "belief": past.items["belief"]}
    if past.pairs is not None:
        arrays |= {"who": past.pairs.who, "pairs": past.pairs.counts}
    described = {**_FORMAT, **content, "arrays": list(arrays)}

    def more(fresh: Path) -> None:
        save_arrays(fresh / _FILE, described, **arrays)
        if add is not None:
            add(fresh)

    run.save(folder, add=more)
    stream.place = place, _state_of(place)


def _state_of(folder: Path) -> Any:
    """Return a value that changes whenever a run is saved to this folder."""
    try:
        found = (folder / "summary.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def load_stream(
    make: Callable[..., S],
    folder: Path,
    method: str | None,
    *,
    forget: float | None,
    window: int | None,
    remember: int | None,
) -> S:
    """Read a stream, or start one from a run; ``make`` is the class of the stream."""
    if what := next((name for kind, name in _WHOLE.items() if kind.is_saved_in(folder)), None):
        raise MethodError(f"{folder} is a run over {what}, which cannot continue from sums; aggregate all labels again")
    state = _state_of(folder)
    if (folder / _FILE).is_file():
        stream = _saved(make, folder, method)
    else:
        stream = _of_run(make, folder, method, window, remember)
    stream.place = folder.resolve(), state
    if (forget, window, remember) != (None, None, None):
        share = stream.forget if forget is None else forget
        stream.forget, stream.window, stream.remember = check_limits(share, window, remember)
        stream._archive.most = stream.remember
        stream._archive.tidy()
    return stream


def _saved(make: Callable[..., S], folder: Path, method: str | None) -> S:
    what = "a stream written by Stream.save"
    content, _ = load_arrays(folder / _FILE, _FORMAT, (), what)
    run = Consensus.load(folder, answers=False)
    try:
        _, arrays = load_arrays(folder / _FILE, _FORMAT, tuple(content["arrays"]), what)
        stream = make(content["method"], seed=content["seed"], **content["parameters"])
        for name in _PLAIN:
            setattr(stream, name, content[name])
        past = stream._past
        for name in _SUMS:
            setattr(past, name, content[name])
        _name(stream, run)
        past.items["belief"] = arrays.get("belief", run.posterior)
        past.items["belief"][arrays["open"]] = arrays["open_belief"]
        for name in (*_ITEMS, *(["votes"] if "votes" in past.items else [])):
            past.items[name] = arrays[name]
            if len(arrays[name]) != len(run.item_ids):
                raise KeyError(name)
        if "pairs" in arrays:
            past.pairs = CoOccurrences(arrays["who"], arrays["pairs"], run.model.annotators, run.model.classes)
        past.annotators["counts"] = arrays["counts"]
        past.class_counts, past.latest_classes = arrays["class_counts"], arrays["latest_classes"]
        stream._held = [arrays["held"]] if arrays["held"].size else []
        stream._archive = Archive(stream.remember, arrays["archive"])
        stream._archive.turn = content["turn"]
    except (KeyError, IndexError, TypeError) as error:
        raise FormatError(f"{folder} is damaged: its {_FILE} does not belong to it ({error})") from error
    if method is not None and method != stream.method:
        if past.n_labels:
            raise ParameterError(f"{folder} is a stream of {stream.method} with a past; it cannot continue as {method}")
        return _hold_labels(make(method, seed=stream.seed), Consensus.load(folder))
    return stream


def _of_run(make: Callable[..., S], folder: Path, method: str | None, window: int | None, remember: int | None) -> S:
    """Start a stream from a run: hold its labels if they are few, otherwise continue from its sums."""
    run = Consensus.load(folder, answers=False)
    made_by = run.run["method"]
    name = method or made_by
    if run.run.get("neighbours"):
        raise MethodError(
            f"{folder} is a run over a graph, which cannot continue from sums; aggregate all labels again"
        )
    if name not in STREAMED:
        raise MethodError(
            f"{folder} was made by {name}, which needs all labels at once; "
            "method='ds-em' (--method ds-em) continues from its model"
        )
    given = run.run.get("parameters", {}) if name == made_by else {}
    stream = make(name, window=window, remember=remember, seed=run.run.get("seed", 0), **given)
    n_labels = int(run.n_labels.sum())
    if n_labels <= max(stream.window, stream.remember) or stream._past.counts_pairs:
        run = Consensus.load(folder)
    if n_labels <= stream.window and run.annotations is not None:
        return _hold_labels(stream, run)
    if name == "majority" and made_by != "majority":
        raise MethodError(f"{folder} keeps no votes, as it was made by {made_by}; continue with method='ds-em'")
    _sum_up(stream, run)
    if stream._past.counts_pairs:
        if run.annotations is None:
            raise MethodError(f"{folder} keeps no labels whose pairs could be counted; continue with method='ds-em'")
        stream._past.pairs = pair_moments(run.annotations)
    if n_labels <= stream.remember and run.annotations is not None:
        a = run.annotations
        columns = (a.item_of_label(), a.annotator, a.label, np.zeros(n_labels))
        stream._archive = Archive(stream.remember, np.array(columns, np.int32))
    stream.note_of_auto()
    return stream


def _hold_labels(stream: S, run: Consensus) -> S:
    """Hold the labels of a run."""
    assert run.annotations is not None
    stream.update(run.annotations)
    stream.updates = run.run.get("updates", 0)
    stream.notes = []
    return stream


def _sum_up(stream: Learning, run: Consensus) -> None:
    """Use the posteriors and counts of a run as the past."""
    _name(stream, run)
    past, K = stream._past, run.posterior.shape[1]
    labelled = run.n_labels > 0
    known = np.zeros(labelled.size, np.bool_)
    if run.run.get("gold_items"):
        # only a known truth makes a posterior certain
        known = (run.posterior == 1.0).any(axis=1) & ((run.posterior == 0.0).sum(axis=1) == K - 1)
    past.items["belief"], past.items["n"] = run.posterior, run.n_labels.astype(np.int64)
    past.items["gold"] = np.where(known, run.choice.best, -1).astype(np.int32)
    past.items["since"], past.items["mask"] = np.zeros(labelled.size), np.zeros(labelled.size, np.uint64)
    past.items["likelihood"] = np.where(labelled, float(run.run["log_likelihood"]) / max(labelled.sum(), 1), 0.0)
    if "votes" in past.items:
        past.items["votes"] = np.rint(run.posterior * run.n_labels[:, None])
        # the run does not keep what broke ties, but it has the winners
        past.items["belief"] = (run.posterior + np.eye(K)[run.choice.best]) / 2.0
    past.items["lot"] = lots(run.item_ids)
    past.annotators["counts"] = run.counts.copy()
    past.class_counts = run.posterior[labelled].sum(axis=0)
    past.latest_classes = past.class_counts.copy()
    past.n_labels, past.log_likelihood = int(run.n_labels.sum()), float(run.run["log_likelihood"])
    stream.notes = list(run.run["warnings"])


def _name(stream: Learning, run: Consensus) -> None:
    """Copy the names and the latest counts of a run."""
    stream._items, stream._annotators = Vocabulary(run.item_ids), Vocabulary(run.model.annotators)
    stream.origin, stream._past.classes = run.origin, run.model.classes
    stream._past.items.size, stream._past.annotators.size = len(run.item_ids), len(run.model.annotators)
    stream._past.annotators["latest"] = run.counts.copy()
