"""The methods by name, what each needs, and one table of what their parameters may be."""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels, Passes
from consilience.exceptions import MethodError, ParameterError
from consilience.fitting.fit import Fit
from consilience.methods.base.needs import THREE_ANNOTATORS, TWO_CLASSES, Need, refuse
from consilience.methods.ds_em import refine

__all__ = ["METHODS", "Method", "check_names", "check_parameters", "fit", "keywords", "resolve"]

REFINED = "+em"


@dataclass(frozen=True)
class Method:
    """A way from annotations to a fit."""

    name: str
    source: Callable[..., Fit] | str  #: the function, or "module:function" of this folder, imported when first used
    estimator: str  #: public name of its scikit-learn class
    summary: str
    needs: tuple[Need, ...] = ()  #: what it refuses to do without
    everywhere: bool = False  #: whether passes over the labels are all it asks for, so that it runs on every engine

    @cached_property
    def function(self) -> Callable[..., Fit]:
        """The function: annotations in, a fit out."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        found: Callable[..., Fit] = getattr(import_module(f"consilience.{module}"), name)
        return found

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that it takes."""
        return keywords(self.function)


def keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Name the keyword-only parameters of a function."""
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY)


#: What ``+em`` takes.  A name that the method itself takes too goes to both.
REFINEMENT = keywords(refine)

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("auto", "auto.auto:auto", "Auto", "the model that the labels themselves ask for"),
        Method(
            "majority", "methods.majority:majority_vote", "MajorityVote", "every vote counts the same", everywhere=True
        ),
        # Dawid and Skene's model and its kin, by EM and by Bayes
        Method(
            "ds-em",
            "methods.ds_em:dawid_skene_em",
            "DawidSkeneEM",
            "a confusion matrix for every annotator, by EM",
            everywhere=True,
        ),
        Method(
            "one-coin",
            "methods.one_coin:one_coin",
            "OneCoin",
            "one accuracy for every annotator, by EM",
            everywhere=True,
        ),
        Method(
            "class-one-coin",
            "methods.class_one_coin:class_one_coin",
            "ClassOneCoin",
            "an accuracy for every annotator and class, by EM",
            everywhere=True,
        ),
        Method("ibcc", "methods.ibcc:ibcc", "IBCC", "a distribution over confusion matrices, by variational Bayes"),
        Method(
            "hierarchical",
            "methods.hierarchical:hierarchical",
            "HierarchicalDawidSkene",
            "confusions drawn from a crowd whose habits are learned",
        ),
        Method("ebcc", "methods.ebcc:ebcc", "EBCC", "classes of several subtypes, so that annotators may err together"),
        # from what pairs and triples of annotators say of common items
        Method(
            "rob-symnmf",
            "methods.symnmf:rob_symnmf",
            "RobustSymNMF",
            "confusions from pairs of annotators, robust to bad pairs",
            everywhere=True,
        ),
        Method(
            "des-symnmf",
            "methods.symnmf:des_symnmf",
            "DesignatedSymNMF",
            "the same, through annotators who met everybody",
            everywhere=True,
        ),
        Method(
            "symnmf",
            "methods.symnmf:symnmf",
            "PlainSymNMF",
            "the same from observed pairs alone, for comparison",
            everywhere=True,
        ),
        Method(
            "multispa",
            "methods.multispa:multispa",
            "MultiSPA",
            "confusions read off the pair blocks by successive projection",
        ),
        Method(
            "cnmf",
            "methods.cnmf:cnmf",
            "CoupledNMF",
            "confusions that explain all pair blocks at once, by coupled KL factors",
        ),
        Method(
            "tensor-admm",
            "methods.tensor_admm:tensor_admm",
            "TensorADMM",
            "confusions that match pairs and triples, by AO-ADMM",
            needs=(THREE_ANNOTATORS,),
        ),
        Method(
            "spectral-ds",
            "methods.spectral_ds:spectral_ds",
            "SpectralDawidSkene",
            "three groups of annotators, by the tensor power method",
            needs=(THREE_ANNOTATORS,),
        ),
        # weights of votes
        Method("kos", "methods.kos:kos", "KOS", "messages between items and annotators"),
        Method(
            "ghosh-svd",
            "methods.ghosh_svd:ghosh_svd",
            "GhoshSVD",
            "the leading singular vector of the labels",
            needs=(TWO_CLASSES,),
        ),
        Method(
            "eigenratio",
            "methods.eigenratio:eigenratio",
            "EigenRatio",
            "agreement beside how often annotators meet",
            needs=(TWO_CLASSES,),
        ),
        Method(
            "sml",
            "methods.sml:sml",
            "SpectralMetaLearner",
            "two-coin model from covariances of pairs",
            needs=(TWO_CLASSES,),
        ),
        Method(
            "te",
            "methods.te:te",
            "TriangularEstimation",
            "accuracies from triangles of annotators",
            needs=(TWO_CLASSES,),
        ),
        # items that differ, and labels completed
        Method(
            "hard-items",
            "methods.hard_items:hard_items",
            "HardItemsDawidSkene",
            "a confusion matrix for every annotator, items that are harder than others",
        ),
        Method("glad", "methods.glad:glad", "GLAD", "an ability for every annotator, a difficulty for every item"),
        Method(
            "minimax-entropy",
            "methods.minimax_entropy:minimax_entropy",
            "MinimaxEntropy",
            "a confusion for every annotator and for every item",
        ),
        Method(
            "pg-tac",
            "methods.pg_tac:pg_tac",
            "TensorAugmentation",
            "the truth as one more annotator of a low-rank table",
        ),
        Method(
            "cria-v", "methods.cria_v:cria_v", "CompletedVote", "labels completed at low rank, then everybody votes"
        ),
    )
}


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < float("inf")


def _is_amount(value: Any) -> bool:
    return _is_number(value) and 0 <= value < float("inf")


Constraint = tuple[Callable[[Any], Any], str]

_AMOUNT: Constraint = (_is_amount, "a number ≥ 0")
_POSITIVE: Constraint = (_is_positive, "a number > 0")
_COUNT: Constraint = (_is_count, "a whole number ≥ 1")
_SHARE: Constraint = (lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 up to 1")
_FLAG: Constraint = (lambda v: isinstance(v, bool), "True or False")

#: parameter: (test, what it must be)
CONSTRAINTS: Mapping[str, Constraint] = {
    "max_iter": (lambda v: _is_amount(v) and int(v) == v, "a whole number ≥ 0"),
    "tol": _SHARE,
    "smoothing": _AMOUNT,
    "shrinkage": _AMOUNT,
    "diagonal": _AMOUNT,
    "spread": (lambda v: v is None or _is_amount(v), "a number ≥ 0, or None"),
    "concentration": _POSITIVE,
    "penalty": _POSITIVE,
    "annotator_penalty": _POSITIVE,
    "item_penalty": _POSITIVE,
    "prior": (lambda v: v in ("learned", "uniform"), "'learned' or 'uniform'"),
    "imbalance": (lambda v: v in ("likelihood", "tensor"), "'likelihood' or 'tensor'"),
    "rule": (lambda v: v in ("map", "ml"), "'map' or 'ml'"),
    "accelerate": _FLAG,
    "reweigh": _FLAG,
    "count_weights": _FLAG,
    "center": _FLAG,
    "normalize": _FLAG,
    "coin": _FLAG,
    "empirical": _FLAG,
    "starts": _COUNT,
    "rotations": _COUNT,
    "subtypes": _COUNT,
    "partitions": _COUNT,
    "rounds": _COUNT,
    "groups": (lambda v: v is None or _is_count(v), "a whole number ≥ 1, or None"),
    "alpha": _SHARE,
    "decay": (lambda v: v is None or (_is_number(v) and 0 < v < 1), "a number between 0 and 1, or None"),
    "callback": (lambda v: v is None or callable(v), "a function or None"),
}


def check_names(method: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise on the first option that a method does not take."""
    if unknown := sorted(set(options) - set(known)):
        raise ParameterError(f"{method} has no parameter {unknown[0]!r}; it takes {', '.join(sorted(known))}")


def check_parameters(values: Mapping[str, Any]) -> None:
    """Raise on the first parameter whose value makes no sense."""
    for name, value in values.items():
        if name in CONSTRAINTS and not CONSTRAINTS[name][0](value):
            raise ParameterError(f"{name} must be {CONSTRAINTS[name][1]}, not {value!r}")


def resolve(name: str) -> tuple[Method, bool, str]:
    """Find a method by name: the method, whether EM refines it, and the name."""
    base, refined = (name.removesuffix(REFINED), True) if name.endswith(REFINED) else (name, False)
    if base not in METHODS:
        close = get_close_matches(base, METHODS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ParameterError(f"there is no method {name!r}{hint} The methods are {', '.join(METHODS)}; +em refines any")
    return METHODS[base], refined, name


#: Makes the passes over labels in memory that a method is to run on.
Place = Callable[[Annotations], AbstractContextManager[Labels]]


def fit(name: str, annotations: Labels, *, place: Place = nullcontext, **options: Any) -> Fit:
    """Run a method by name, ``+em`` and all.

    Where labels are not in memory, or are to be passed over at another ``place``, the method must run ``everywhere``.
    """
    method, refined, full = resolve(name)
    known = {*method.parameters, *(REFINEMENT if refined else ())} | {"callback"}
    check_names(full, options, known)
    check_parameters(options)
    _refuse_what_does_not_fit_in_memory(annotations)
    used = annotations.used_classes
    classes = annotations.class_ids
    if isinstance(annotations, Passes):
        if not used.all():
            unused = [repr(name) for name in classes.take(np.flatnonzero(~used))]
            raise MethodError(
                f"nobody used the classes {', '.join(unused[:5])}; labels on disk need classes without them"
            )
        return _run(method, refined, annotations, options)
    if used.all() or not used.any():
        with place(annotations) as placed:
            return _run(method, refined, placed, options)
    # a class that nobody used is nobody's truth: no label speaks for it
    inner = annotations.recode(annotations.annotator_ids, classes.take(np.flatnonzero(used)))
    with place(inner) as placed:
        return _run(method, refined, placed, options).among(classes, used)


def _run(method: Method, refined: bool, annotations: Labels, options: Mapping[str, Any]) -> Fit:
    refuse(annotations, method.name, method.needs)
    first = method.function(annotations, **{k: v for k, v in options.items() if k in method.parameters})
    if not refined:
        return first
    return refine(annotations, first, **{k: v for k, v in options.items() if k in REFINEMENT})


def _refuse_what_does_not_fit_in_memory(annotations: Labels) -> None:
    N, M, K = annotations.n_items, annotations.n_annotators, annotations.n_classes
    N = 0 if isinstance(annotations, Passes) else N  # items are not held in memory
    needed = 8.0 * K * (4 * M * K + 2 * N)
    available = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else 8e9
    if needed > 0.8 * available:
        raise MethodError(
            f"{K} classes for {M} annotators and {N} items would need {needed / 1e9:.0f} GB of memory. "
            f"Is the label column the right one ({annotations.origin.label!r} has {K} different values)? "
            "If it is, merge rare labels first"
        )
