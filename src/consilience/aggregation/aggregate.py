"""From annotations to a consensus in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from consilience.aggregation import registry
from consilience.aggregation.em import Callback
from consilience.aggregation.fit import Caution
from consilience.annotations import Annotations
from consilience.consensus import Consensus
from consilience.exceptions import FewLabelsWarning, ParameterError, warn
from consilience.kernels.grouping import components
from consilience.kernels.votes import vote_statistics

__all__ = ["aggregate", "as_annotations", "cautions_of", "diagnose_run", "examine_run", "story", "warn_of"]


def aggregate(
    data: Any,
    method: str = "auto",
    *,
    gold: Any = None,
    seed: int | None = 0,
    engine: str = "local",
    callback: Callback | None = None,
    **parameters: Any,
) -> Consensus:
    """Turn what annotators said into labels with probabilities.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, or the path of a file.
    method
        A name from :data:`consilience.METHODS`; ``+em`` refines any of them.
    gold
        Known truths, held fixed; see :meth:`consilience.Annotations.with_gold`.
    seed
        Decides everything that is random.
    engine
        Where the passes over the data run; "local" is this process.
    callback
        Told of every pass over the data.
    **parameters
        Those of the method, such as ``smoothing``, ``max_iter`` and ``tol``.
    """
    if engine != "local":
        raise ParameterError(f"there is no engine {engine!r}; this release has 'local'")
    annotations = as_annotations(data)
    if gold is not None:
        annotations = annotations.with_gold(gold)
    begun = time.perf_counter()
    chosen, _, full_name = registry.resolve(method)
    seeded = {"random_state": seed} if "random_state" in chosen.parameters else {}
    fit = registry.fit(method, annotations, callback=callback, **seeded, **parameters)
    warn_of([*cautions_of(annotations), *fit.cautions])
    statistics = vote_statistics(
        annotations.indptr, annotations.annotator, annotations.label, fit.posterior, annotations.n_annotators
    )
    run = story(
        annotations, fit, method=full_name, by_user=method != "auto", parameters=parameters, seed=seed, begun=begun
    )
    return Consensus(
        fit.model,
        fit.posterior,
        fit.choice,
        annotations.item_ids,
        annotations.labels_per_item,
        statistics.counts,
        run,
        annotations.origin,
        partial(diagnose_run, annotations),
        annotations=annotations,
        examine=partial(examine_run, annotations),
    )


class Told(Protocol):
    """What a fit tells of itself."""

    @property
    def log_likelihood(self) -> float:
        """Log-probability of all labels."""

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""

    @property
    def history(self) -> list[float]:
        """The objective after every pass."""

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What the user should know."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Figures of the method's own."""


def story(
    annotations: Annotations,
    fit: Told,
    *,
    method: str,
    by_user: bool,
    parameters: Mapping[str, Any],
    seed: int | None,
    begun: float,
    alone: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """Tell how a run went, in plain values; ``more`` figures stand behind the counts.

    Where items do not stand ``alone``, what has no label of its own is judged by its neighbours.
    """
    sentences = [sentence for sentence, _ in (*cautions_of(annotations, alone=alone), *fit.cautions)]
    if not alone:
        more = {**more, "neighbours": True}
    return {
        "method": method,
        "chosen_by": "user" if by_user else "auto",
        "parameters": dict(parameters),
        "N": annotations.n_items,
        "M": annotations.n_annotators,
        "K": annotations.n_classes,
        "labels": annotations.n_labels,
        **more,
        "gold_items": 0 if annotations.gold is None else int((annotations.gold >= 0).sum()),
        "seed": seed,
        "seconds": round(time.perf_counter() - begun, 6),
        "log_likelihood": fit.log_likelihood,
        "converged": fit.converged,
        "iterations": len(fit.history),
        "history": [float(value) for value in fit.history],
        **fit.details,
        "warnings": [*annotations.origin.notes, *sentences],
    }


def diagnose_run(annotations: Annotations, consensus: Consensus) -> Any:
    """Diagnose the labels that a run came from."""
    from consilience.diagnose import diagnose

    return diagnose(annotations, consensus=consensus, seed=consensus.run["seed"] or 0)


def examine_run(annotations: Annotations, consensus: Consensus) -> Any:
    """Look for copies and changes in the labels that a run came from."""
    from consilience.diagnose.health import annotator_health

    return annotator_health(annotations, consensus)


def as_annotations(data: Any) -> Annotations:
    """Take annotations as they are; read files, long frames and matrices."""
    from consilience import _frames

    if isinstance(data, Annotations):
        return data
    if isinstance(data, str | os.PathLike):
        from consilience.io import read

        return read(data)
    if _frames.is_frame(data) and is_long(_frames.columns_of(data)):
        return Annotations.from_frame(data)
    return Annotations.from_matrix(data)


def is_long(columns: list[str]) -> bool:
    """Tell whether a frame with these columns holds a label in each row: any of the three roles has a known name.

    A frame that names one role only is taken for a long frame with a column missing, not for a matrix: the error helps.
    """
    from consilience._frames import ALIASES

    names = {str(name).strip().lower() for name in columns}
    return any(names.intersection(ALIASES[role]) for role in ("item", "annotator", "label"))


def cautions_of(annotations: Annotations, *, alone: bool = True) -> list[Caution]:
    """Say what about the data itself limits any method; items that do not stand ``alone`` have neighbours."""
    found: list[Caution] = []
    counts = annotations.labels_per_annotator
    active = int((counts > 0).sum())
    if annotations.n_classes == 1:
        found.append((f"every label is {annotations.class_ids[0]!r}: there is nothing to tell apart", FewLabelsWarning))
    if active == 1:
        found.append(("there is only one annotator: the labels are theirs, and nothing checks them", FewLabelsWarning))
    elif active == 2:
        found.append(
            (
                "there are only two annotators: where they differ, the data cannot tell who is right",
                FewLabelsWarning,
            )
        )
    elif int(annotations.labels_per_item.max()) <= 1:
        found.append(("no item has two labels: nothing shows who is right", FewLabelsWarning))
    single = int((counts == 1).sum())
    if single and active > 2:
        found.append(
            (f"annotators who gave a single label: {single} of {active}; little can be said of them", FewLabelsWarning)
        )
    component = components(annotations.indptr, annotations.annotator, annotations.n_annotators)
    crowds = np.unique(component[counts > 0]).size
    if crowds > 1:
        found.append(
            (
                f"the annotators fall into {crowds} groups that share no item: "
                "how the groups compare is not in the data. Let members of different groups label some items in common",
                FewLabelsWarning,
            )
        )
    empty = int((annotations.labels_per_item == 0).sum())
    if empty:
        what = "stay unlabelled" if alone else "are judged by their neighbours alone"
        found.append((f"{empty} items have no label and {what}", FewLabelsWarning))
    return found


def warn_of(cautions: list[Caution]) -> None:
    """Warn of each."""
    for sentence, category in cautions:
        warn(sentence, category)
