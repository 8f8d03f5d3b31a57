"""Run many methods on labels with known truth, and compare their error, calibration and cost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consilience.answers.kinds import Kind, take_answers
from consilience.answers.ordinal_consensus import in_order
from consilience.compare import candidates, supervise
from consilience.compare.candidates import Candidate, candidate_of
from consilience.compare.comparison import Comparison
from consilience.compare.supervise import Task
from consilience.compare.trial import save_labels
from consilience.compare.values import compare_values
from consilience.data.annotations import Annotations
from consilience.diagnose.open_answers import without_answers
from consilience.exceptions import DataError, DataWarning, ParameterError
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Codes
from consilience.methods.base import registry
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.validation import whole

__all__ = ["Step", "compare", "expand"]


class Step(NamedTuple):
    """Progress of a comparison, passed to the callback when a method starts and when a run ends."""

    done: int  #: finished runs
    total: int  #: all runs
    running: tuple[str, ...]  #: methods that are running
    row: dict[str, Any] | None = None  #: the run that has just ended


def compare(
    data: Any,
    truth: Any,
    *,
    methods: Any = None,
    answers: str = "auto",
    order: Any = None,
    seeds: int | Sequence[int] = 1,
    jobs: int = 1,
    timeout: float | None = None,
    callback: Callable[[Step], Any] | None = None,
) -> Any:
    """Run methods on labels whose truth is known, and measure their error, calibration and cost.

    Returns a :class:`consilience.Comparison`.  For numbers and answers that name several options, the models are
    compared with means, medians or votes, and the result has ``table``, ``to_csv`` and ``to_dict`` only.

    Every method of this library runs in a process of its own, functions and other estimators in this one.  A method
    that refuses the data, fails or times out gets a row in the table with the reason.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, or the path of a file.
    truth
        As in :meth:`consilience.Annotations.with_gold`, or the path of a file.  Items without a truth or without a
        label are not judged.
    methods
        Names, as a list or separated by commas; "all" (the default) means every method, "all+em" every method refined
        by EM.  A list may also hold functions and estimators, and a mapping gives them names.  A function gets the
        annotations, and the seed if it has a parameter ``random_state``; it returns labels (one for each item, a
        mapping, a series, a frame), probabilities (an array of items × classes, or a pandas frame with items in the
        index) or a :class:`Consensus`.  An estimator that is not of this library gets a pandas frame with ``task``,
        ``worker`` and ``label`` in ``fit_predict_proba`` or ``fit_predict``.
    seeds
        Number of seeds for random methods (0, 1, …), or the seeds; they replace the ``random_state`` of estimators.
        Other methods run once.
    jobs
        Number of methods that run at a time.  More than one slow each other down, which affects the seconds.
    timeout
        Time limit of a method in seconds, for all seeds together; functions and estimators are not interrupted.
    callback
        Called with a :class:`Step` when a method starts and when a run ends; ends the comparison by returning True.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(300, 12, 3, experts=0.25)
    >>> compare(crowd.annotations, crowd.truth, methods="majority,ds-em")
    <Comparison: 2 methods on 300 items, best ds-em (1.67 % wrong)>
    """
    data, taken = take_answers(data, answers, "auto", order=order)
    annotations = as_annotations(data)
    if taken.kind in ("numeric", "multi"):
        return compare_values(annotations, _read_truth(annotations, truth), taken, methods)
    if taken.kind == "ordinal":
        annotations, _ = in_order(annotations, order)
    chosen = _chosen(methods)
    tasks = {Task(name, _seeds_of(name, candidate, seeds)): candidate for name, candidate in chosen.items()}
    _check(jobs, timeout)
    codes = _judged(annotations, truth)
    # answers that differ between items have no frequencies that could be rare
    cautions = cautions_of(without_answers(annotations) if taken.kind == "open" else annotations)
    cautions = [*([(taken.reason, DataWarning)] if taken.reason else []), *cautions]
    warn_of(cautions)
    notes = [*annotations.origin.notes, *filter(None, [taken.hint]), *(sentence for sentence, _ in cautions)]
    jobs = max(1, min(jobs, sum(candidate is None for candidate in chosen.values())))
    if own := [name for name, candidate in chosen.items() if candidate is not None]:
        notes.append(f"{', '.join(own)} ran in this process: seconds include what is loaded and compiled on first use")
    if jobs > 1:
        notes.append(f"{jobs} methods ran at a time and slowed each other down: for comparable seconds, use jobs=1")
    return Comparison(
        tuple(task.method for task in tasks),
        tuple(_run(tasks, annotations, codes, taken.kind, jobs, timeout, callback)),
        {
            "answers": taken.kind,
            "N": annotations.n_items,
            "M": annotations.n_annotators,
            "K": annotations.n_classes,
            "labels": annotations.n_labels,
            "judged": int((codes >= 0).sum()),
            "jobs": jobs,
            "timeout": timeout,
        },
        tuple(notes),
        annotations.origin,
    )


def _run(
    tasks: Mapping[Task, Candidate | None],
    annotations: Annotations,
    truth: Codes,
    kind: Kind,
    jobs: int,
    timeout: float | None,
    callback: Callable[[Step], Any] | None,
) -> list[dict[str, Any]]:
    """Return a row for every method and seed, in their order."""
    rows: dict[tuple[str, int | None], dict[str, Any]] = {}
    running: list[str] = []
    stopped = {"status": "stopped", "note": "the comparison was stopped"}
    wanted = [(task.method, seed) for task in tasks for seed in task.seeds]
    with tempfile.TemporaryDirectory(prefix="consilience-", ignore_cleanup_errors=True) as folder:
        labels = Path(folder) / "labels.npz"
        save_labels(labels, annotations, truth, kind)
        own = {task: candidate for task, candidate in tasks.items() if candidate is not None}
        named = [task for task in tasks if task not in own]
        with (
            closing(supervise.run(named, labels, jobs=jobs, timeout=timeout)) as apart,
            closing(candidates.run(own, annotations, truth, timeout)) as here,
        ):
            for task, event, row in chain(apart, here):
                if event == "begun":
                    running.append(task.method)
                elif event == "ended":
                    running.remove(task.method)
                    continue
                if row is not None:
                    rows[task.method, row["seed"]] = row = {"method": task.method, **row}
                if callback is not None and callback(Step(len(rows), len(wanted), tuple(running), row)):
                    break
    return [rows.get(key) or {"method": key[0], "seed": key[1], **stopped} for key in wanted]


def expand(methods: str | Iterable[str] | None = None) -> list[str]:
    """Return the names of methods, each once; raise an error for unknown names."""
    given = ["all"] if methods is None else methods.split(",") if isinstance(methods, str) else list(methods)
    names: dict[str, None] = {}
    for name in (str(each).strip() for each in given):
        if name == "all":
            names |= dict.fromkeys(registry.METHODS)
        elif name == "all" + registry.REFINED:
            names |= dict.fromkeys(each + registry.REFINED for each in registry.METHODS)
        elif name:
            registry.resolve(name)
            names[name] = None
    if not names:
        raise ParameterError("there is no method to compare; name some, or 'all'")
    return list(names)


def _chosen(methods: Any) -> dict[str, Candidate | None]:
    """Return the methods by name: None for those of the registry, otherwise a function or an estimator."""
    if methods is None or isinstance(methods, str):
        return dict.fromkeys(expand(methods))
    if isinstance(methods, Mapping):
        if named := [name for name, given in methods.items() if isinstance(given, str)]:
            raise ParameterError(
                f"a mapping gives names to functions and estimators; {named[0]!r} is the name of a text"
            )
        given: list[Any] = [candidate_of(each, str(name)) for name, each in methods.items()]
    else:
        whole = [methods] if callable(methods) or hasattr(methods, "fit_predict") else methods
        given = [each if isinstance(each, str) else candidate_of(each) for each in whole]
    chosen: dict[str, Candidate | None] = {}
    for each in given:
        if isinstance(each, Candidate):
            if each.name in chosen or each.name.removesuffix(registry.REFINED) in registry.METHODS:
                raise ParameterError(f"two methods are called {each.name!r}; give them names: {{'name': method, …}}")
            chosen[each.name] = each
        else:
            chosen |= dict.fromkeys(expand([each]))
    return chosen or dict.fromkeys(expand([]))


def _seeds_of(name: str, candidate: Candidate | None, seeds: Any) -> tuple[int | None, ...]:
    """Return the seeds of a method; (None,) for a method that is not random."""
    chosen = list(range(seeds)) if isinstance(seeds, int | np.integer) else list(seeds)
    whole = all(isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0 for seed in chosen)
    if isinstance(seeds, bool) or not chosen or not whole or len(set(chosen)) < len(chosen):
        raise ParameterError(f"seeds must be a whole number ≥ 1, or different whole numbers ≥ 0, not {seeds!r}")
    random = candidate.random if candidate else "random_state" in registry.resolve(name)[0].parameters
    return tuple(map(int, chosen)) if random else (None,)


def _check(jobs: Any, timeout: Any) -> None:
    whole("jobs", jobs)
    # somewhat below the limit of a timer
    if timeout is not None and not (isinstance(timeout, int | float | np.number) and 0 < timeout <= 4e6):
        raise ParameterError(f"timeout must be a number of seconds above 0 (at most 4000000), or None, not {timeout!r}")


def _read_truth(annotations: Annotations, truth: Any) -> Any:
    if not isinstance(truth, str | os.PathLike):
        return truth
    from consilience.io import read_truth

    return read_truth(truth, like=annotations)


def _judged(annotations: Annotations, truth: Any) -> Codes:
    """Return the class code of every item that is judged, -1 for the others."""
    codes = annotations.codes_of_truth(_read_truth(annotations, truth), strict=False)
    codes[annotations.labels_per_item == 0] = -1
    if not (codes >= 0).any():
        raise DataError("no item has both a truth and a label")
    return codes
