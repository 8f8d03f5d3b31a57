"""``cs.audit``: what a panel of judges is worth, and what moves their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from consilience.answers.kinds import require_classes
from consilience.audit.columns import is_panel, read_columns
from consilience.audit.constants import FEWEST, MOST_FITS
from consilience.audit.effects import ALL, KNOWN, Effect, effects_of, holm, mean_effect, trends_of
from consilience.audit.families import Families, find_families
from consilience.audit.panels import Panels, find_panels
from consilience.audit.properties import (
    Labels,
    author_property,
    drift_property,
    length_property,
    order_property,
)
from consilience.audit.refusals import Refusals, take_refusals
from consilience.audit.result import Audit
from consilience.audit.without import without_each
from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.diagnose.health import effective_annotators
from consilience.diagnose.plan_input import for_annotators
from consilience.exceptions import DataError, ParameterError
from consilience.inference.known import blind_consensus, known_answers, labels_alone
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Codes, Floats
from consilience.runs.annotator_table import accuracy_columns
from consilience.runs.consensus import Consensus

__all__ = ["Audit", "audit"]

#: What an effect of leniency is measured against if nothing is known.
_CONSENSUS = "the consensus"


def audit(
    data: Any,
    gold: Any = None,
    *,
    order: Any = None,
    length: Any = None,
    author: Any = None,
    families: Mapping[Any, Any] | None = None,
    judges: Mapping[Any, Any] | None = None,
    costs: Any = None,
    refusals: Any = None,
    good: Any = None,
    without: bool | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Audit a panel of judges, such as language models: quality, families, biases, and whom to keep.

    Everything but the panels works without known answers, compared with the consensus of the judges; errors that most
    of them share cannot be seen then.  With known answers, a random sample of the items, the audit rests on these.

    Parameters
    ----------
    data
        A consensus, or labels in any form that :func:`consilience.aggregate` takes.  A frame with a row for each
        verdict may also have the columns prompt, order, author, length and cost, which then need not be given.
    gold
        Known answers, in any form that :meth:`consilience.Annotations.with_gold` takes; by default those of the
        consensus.
    order
        The class that was shown first: a mapping from annotator, or a frame with item, annotator and that class.
    length
        Length of every item, or a frame with an item column and one for each of two classes.
    author
        Author of every item, or a frame with an item column and one for each of two classes; authors have the names
        of judges.
    families
        Family of judges and authors, such as the company that made a model: how much judges favour others of their
        family.
    judges
        The judge of annotators that are variants of one, such as the same model with two orders.  Effects are those
        of judges.
    costs
        Cost of a label, as for :func:`consilience.plan`: what panels cost.
    refusals
        Class, or list of classes, that stand for a refused or unparsable answer, or True if every missing label is one.
        They are dropped from everything else.
    good
        Class, or list of classes, of a good answer, for effects of properties of items; by default the last class.
    without
        Whether to fit the consensus again without each annotator; by default for up to 25 of them.
    level
        Level of the intervals.
    seed
        Seed of the consensus, if labels are given, and of the folds of the cross-validation.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(300, 6, 2, labels_per_item=6, seed=1)
    >>> found = cs.audit(crowd.annotations, gold={item: int(crowd.truth[item]) for item in range(50)})
    >>> len(found.panel) <= 6
    True
    """
    if not 0.5 <= level < 1:
        raise ParameterError(f"level must be a number from 0.5 up to 1, not {level!r}")
    data = _frames.from_dataset(data)
    if is_panel(data):
        data, found_in = read_columns(data)
        order, author, length = (
            found_in.get(name) if value is None else value
            for name, value in (("order", order), ("author", author), ("length", length))
        )
        judges, costs = judges or found_in["judges"], found_in.get("costs") if costs is None else costs
    if families is not None and author is None:
        raise ParameterError("families needs authors: give author=…, or a frame with a column author")
    if not isinstance(data, Consensus):
        data = as_annotations(data)
        require_classes(data, "audit")
    silent = None
    if refusals is not None and refusals is not False:
        gold = gold if gold is not None else _gold_of(data)
        data, silent = take_refusals(labels_alone(data, "audit"), refusals)
    consensus = blind_consensus(data, seed, "audit")
    a = consensus.annotations
    assert a is not None
    price = for_annotators(costs, a.annotator_ids, "cost", missing=None)
    truth = known_answers(data, gold, a)[0]
    n_known = int(((truth >= 0) & (a.labels_per_item > 0)).sum())
    if 0 < n_known < FEWEST:
        raise DataError(f"{n_known} known answers are too few for an audit: give at least {FEWEST}, or none")
    labelled = a._with(gold=np.where(truth < a.n_classes, truth, -1)) if n_known else a
    effective = effective_annotators(labelled, consensus.model)[0]
    groups = find_families(labelled)
    panels = find_panels(a, truth, seed) if n_known else None
    labels = Labels(a, judges, good)
    found: dict[str, list[Effect]] = {}
    lean = _leniency(labels, consensus.posterior, truth, level)
    for name, given, read in (
        ("position", order, order_property),
        ("length", length, length_property),
        ("self-preference", author, author_property),
    ):
        if given is not None:
            rows, values = read(labels, given)
            right = _right(values, truth) if n_known else None
            found[name] = effects_of(rows, a.n_items, len(labels.names), right, level)
    if author is not None and families is not None:
        rows, values = author_property(labels, author, families)
        right = _right(values, truth) if n_known else None
        found["family-preference"] = effects_of(rows, a.n_items, len(labels.names), right, level)
    if (times := drift_property(labels)) is not None:
        found["drift"] = trends_of(times, a.n_items, len(labels.names), level)
    if without is None:
        without = a.n_annotators <= MOST_FITS
    return Audit(
        judges=_judges(consensus, truth, groups, panels, without, _more_columns(silent, price, truth, a)),
        effects=_effects(labels, lean, found, a),
        families=_families(groups, a),
        panels=None if panels is None else _panels(panels, a, n_known, price),
        panel=() if panels is None else tuple(a.annotators[np.sort(panels.order[: panels.size])].tolist()),
        effective=effective,
        families_by_gold=groups.by_gold,
        items=a.n_items,
        known=n_known,
        level=level,
    )


def _right(values: Floats, truth: Codes) -> Floats:
    """Return y of the right verdict, NaN where it is unknown; a class that nobody used is neither option, nor good."""
    more = 0.5 if (values == 0.5).any() else 0.0
    K = values.size
    return np.where(truth < 0, np.nan, np.append(values, more)[np.clip(truth, 0, K)])


def _leniency(labels: Labels, posterior: Floats, truth: Codes, level: float) -> list[tuple[int, Effect]]:
    """Return how much more often each judge says each class (the last one alone, of two) than the items deserve."""
    a = labels.annotations
    K = a.n_classes
    known = truth >= 0
    made = []
    for m in range(len(labels.names)):
        mine = np.flatnonzero(labels.judge == m)
        sure = mine[known[labels.item[mine]]]
        by_gold = sure.size >= FEWEST
        rows = sure if by_gold else mine
        _, item = np.unique(labels.item[rows], return_inverse=True)
        size = np.bincount(item)
        for k in range(1 if K == 2 else 0, K):
            deserved = (truth == k).astype(np.float64) if by_gold else posterior[:, k]
            each = np.bincount(item, (a.label[rows] == k) - deserved[labels.item[rows]]) / size
            effect = mean_effect(m, KNOWN if by_gold else _CONSENSUS, each, level)
            if effect is not None:
                made.append((k, effect))
    return made


def _gold_of(data: Any) -> Any:
    """Return the known answers that come with labels, as a mapping; refusals change the codes of classes."""
    a = data.annotations if isinstance(data, Consensus) else data
    if not isinstance(a, Annotations) or a.gold is None:
        return None
    return {a.items[n]: a.classes[a.gold[n]] for n in np.flatnonzero(a.gold >= 0).tolist()}


def _more_columns(silent: Refusals | None, price: Floats | None, truth: Codes, a: Annotations) -> dict[str, Any]:
    """Return cost and refusals of every judge, and the error on known answers if refusals count as errors."""
    made: dict[str, Any] = {}
    if price is not None:
        made["cost"] = price
    if silent is not None:
        rate = accuracy_columns(silent.refused, silent.asked)
        made |= {"refused": rate["accuracy"], "refused_low": rate["low"], "refused_high": rate["high"]}
        if (truth >= 0).any():
            item, more = a.item_of_label(), silent.on(truth >= 0)
            known = truth[item] >= 0
            answered = np.bincount(a.annotator[known], minlength=a.n_annotators)
            wrong = np.bincount(a.annotator[known & (a.label != truth[item])], minlength=a.n_annotators)
            made["error_with_refusals"] = (wrong + more) / np.maximum(answered + more, 1)
    return made


def _judges(
    consensus: Consensus,
    truth: Codes,
    families: Families,
    panels: Panels | None,
    without: bool,
    more: Mapping[str, Any],
) -> Any:
    a = consensus.annotations
    assert a is not None
    made = dict(consensus.annotator_columns)
    name = next(iter(made))
    columns: dict[str, Any] = {"judge": made[name]}
    columns |= {key: made[key] for key in ("n_labels", "accuracy", "low", "high", "bias", "flags")}
    family = np.zeros(a.n_annotators, np.int64)
    for number, members in enumerate(families.members, 1):
        family[members] = number
    columns["family"] = family
    if without:
        gone = without_each(consensus, truth)
        columns["changed_without"] = gone.changed
    if panels is not None:
        item = a.item_of_label()
        known = truth[item] >= 0
        n = np.bincount(a.annotator[known], minlength=a.n_annotators).astype(np.float64)
        wrong = np.bincount(a.annotator[known & (a.label != truth[item])], minlength=a.n_annotators).astype(np.float64)
        error = accuracy_columns(wrong, n)
        columns |= {"known": error["n_labels"], "error": error["accuracy"]}
        columns |= {"error_low": error["low"], "error_high": error["high"]}
        columns["keep"] = np.isin(np.arange(a.n_annotators), panels.order[: panels.size])
        if without:
            columns |= {"more_errors_without": gone.more_errors, "more_low": gone.low, "more_high": gone.high}
    return _frames.make(columns | dict(more), a.origin.frame)


def _effects(labels: Labels, lean: list[tuple[int, Effect]], found: Mapping[str, list[Effect]], a: Annotations) -> Any:
    """Return all effects in percentage points, with p-values corrected within each kind."""
    kinds = [("leniency", str(a.classes[k]), effect) for k, effect in lean]
    kinds += [(name, "", effect) for name, effects in found.items() for effect in effects]
    rows: dict[str, list[Any]] = {
        key: [] for key in ("effect", "judge", "class", "against", "points", "low", "high", "p", "labels")
    }
    for name in dict.fromkeys(kind for kind, _, _ in kinds):
        of = [(k, effect) for kind, k, effect in kinds if kind == name]
        alone = np.array([effect.judge == ALL for _, effect in of])
        weights = np.where(alone, 1.0 / max(alone.sum(), 1), 1.0 / max((~alone).sum(), 1))
        corrected = holm(np.array([effect.p for _, effect in of]), weights)
        for (k, e), p in zip(of, corrected.tolist(), strict=True):
            judge = "all judges" if e.judge == ALL else labels.names[e.judge]
            values = (name, judge, k, e.against, 100 * e.size, 100 * e.low, 100 * e.high, p, e.labels)
            for column, value in zip(rows.values(), values, strict=True):
                column.append(value)
    return _frames.make(rows, a.origin.frame)


def _families(families: Families, a: Annotations) -> Any:
    names = [", ".join(sorted(str(a.annotators[m]) for m in members)) for members in families.members]
    columns = {
        "family": np.arange(1, len(names) + 1),
        "size": np.array([members.size for members in families.members], np.int64),
        "correlation": np.array(families.correlation, np.float64),
        "judges": names,
    }
    return _frames.make(columns, a.origin.frame)


def _panels(panels: Panels, a: Annotations, n_known: int, price: Floats | None) -> Any:
    """Return a row for every size: the judge that joins, and the cross-validated error of the vote."""
    error = accuracy_columns(panels.error * n_known, np.full(panels.error.size, float(n_known)))
    size = np.arange(1, panels.order.size + 1)
    columns = {
        "size": size,
        "joins": a.annotator_ids.take(panels.order).to_arrow(),
        "error": panels.error,
        "low": error["low"],
        "high": error["high"],
        "smallest": size == panels.size,
    }
    if price is not None:
        columns["cost"] = np.cumsum(price[panels.order])
    return _frames.make(columns, a.origin.frame)
