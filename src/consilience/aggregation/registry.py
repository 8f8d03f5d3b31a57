"""The methods by name, what each needs, and one table of what their parameters may be."""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from consilience.aggregation.ds_em import dawid_skene_em, refine
from consilience.aggregation.fit import Fit
from consilience.aggregation.majority import majority_vote
from consilience.aggregation.needs import Need, refuse
from consilience.aggregation.one_coin import one_coin
from consilience.aggregation.symnmf import des_symnmf, rob_symnmf, symnmf
from consilience.annotations import Annotations
from consilience.exceptions import MethodError, ParameterError

__all__ = ["METHODS", "Method", "check_parameters", "fit", "resolve"]

REFINED = "+em"


@dataclass(frozen=True)
class Method:
    """A way from annotations to a fit."""

    name: str
    function: Callable[..., Fit]
    estimator: str  #: public name of its scikit-learn class
    summary: str
    needs: tuple[Need, ...] = ()  #: what it refuses to do without

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that it takes."""
        return _keywords(self.function)


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY)


#: What ``+em`` takes.  A name that the method itself takes too goes to both.
_REFINEMENT = _keywords(refine)

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("majority", majority_vote, "MajorityVote", "every vote counts the same"),
        Method("ds-em", dawid_skene_em, "DawidSkeneEM", "a confusion matrix for every annotator, by EM"),
        Method("one-coin", one_coin, "OneCoin", "one accuracy for every annotator, by EM"),
        Method("rob-symnmf", rob_symnmf, "RobustSymNMF", "confusions from pairs of annotators, robust to bad pairs"),
        Method("des-symnmf", des_symnmf, "DesignatedSymNMF", "the same, through annotators who met everybody"),
        Method("symnmf", symnmf, "PlainSymNMF", "the same from observed pairs alone, for comparison"),
    )
}

#: What "auto" stands for.  The summary of a run names the method that was used.
AUTO = "ds-em"


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


#: parameter: (test, what it must be)
CONSTRAINTS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "max_iter": (
        lambda v: _is_number(v) and int(v) == v >= 0,
        "a whole number ≥ 0",
    ),
    "tol": (lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 up to 1"),
    "smoothing": (lambda v: _is_number(v) and 0 <= v < float("inf"), "a number ≥ 0"),
    "shrinkage": (lambda v: _is_number(v) and 0 <= v < float("inf"), "a number ≥ 0"),
    "prior": (lambda v: v in ("learned", "uniform"), "'learned' or 'uniform'"),
    "accelerate": (lambda v: isinstance(v, bool), "True or False"),
    "reweigh": (lambda v: isinstance(v, bool), "True or False"),
    "count_weights": (lambda v: isinstance(v, bool), "True or False"),
    "starts": (_is_count, "a whole number ≥ 1"),
    "rotations": (_is_count, "a whole number ≥ 1"),
    "alpha": (lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 up to 1"),
    "decay": (lambda v: v is None or (_is_number(v) and 0 < v < 1), "a number between 0 and 1, or None"),
    "callback": (lambda v: v is None or callable(v), "a function or None"),
}


def check_parameters(values: Mapping[str, Any]) -> None:
    """Raise on the first parameter whose value makes no sense."""
    for name, value in values.items():
        if name in CONSTRAINTS and not CONSTRAINTS[name][0](value):
            raise ParameterError(f"{name} must be {CONSTRAINTS[name][1]}, not {value!r}")


def resolve(name: str) -> tuple[Method, bool, str]:
    """Find a method by name: the method, whether EM refines it, and the full name of what will run."""
    full = AUTO if name == "auto" else name
    base, refined = (full.removesuffix(REFINED), True) if full.endswith(REFINED) else (full, False)
    if base not in METHODS:
        close = get_close_matches(base, METHODS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ParameterError(
            f"there is no method {name!r}{hint} The methods are auto, {', '.join(METHODS)}; +em refines any"
        )
    return METHODS[base], refined, full


def fit(name: str, annotations: Annotations, **options: Any) -> Fit:
    """Run a method by name, ``+em`` and all."""
    method, refined, full = resolve(name)
    known = {*method.parameters, *(_REFINEMENT if refined else ())} | {"callback"}
    if unknown := sorted(set(options) - known):
        raise ParameterError(f"{full} has no parameter {unknown[0]!r}; it takes {', '.join(sorted(known))}")
    check_parameters(options)
    _refuse_what_does_not_fit_in_memory(annotations)
    used = annotations.used_classes
    if used.all() or not used.any():
        return _run(method, refined, annotations, options)
    # a class that nobody used is nobody's truth: no label speaks for it
    classes = annotations.class_ids
    inner = annotations.recode(annotations.annotator_ids, classes.take(np.flatnonzero(used)))
    return _run(method, refined, inner, options).among(classes, used)


def _run(method: Method, refined: bool, annotations: Annotations, options: Mapping[str, Any]) -> Fit:
    refuse(annotations, method.name, method.needs)
    first = method.function(annotations, **{k: v for k, v in options.items() if k in method.parameters})
    if not refined:
        return first
    return refine(annotations, first, **{k: v for k, v in options.items() if k in _REFINEMENT})


def _refuse_what_does_not_fit_in_memory(annotations: Annotations) -> None:
    N, M, K = annotations.n_items, annotations.n_annotators, annotations.n_classes
    needed = 8.0 * K * (4 * M * K + 2 * N)
    available = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else 8e9
    if needed > 0.8 * available:
        raise MethodError(
            f"{K} classes for {M} annotators and {N} items would need {needed / 1e9:.0f} GB of memory. "
            f"Is the label column the right one ({annotations.origin.label!r} has {K} different values)? "
            "If it is, merge rare labels first"
        )
