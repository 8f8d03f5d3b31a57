"""The methods by name, and how one is run.

Method ``ds-em`` lives in ``methods/ds_em.py`` and is declared there as ``METHOD``: a module in that folder is a
method, and there is no list to extend.  A module is imported when its method is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import numpy as np

import consilience.methods
from consilience.data.annotations import Annotations
from consilience.engine.passes import InMemory, Labels, Passes
from consilience.exceptions import MethodError, ParameterError, did_you_mean
from consilience.fitting.fit import Fit
from consilience.memory import available_bytes
from consilience.methods.base.method import Method
from consilience.methods.base.refinement import plain_em, refine
from consilience.validation import check_names, check_parameters, keywords

if TYPE_CHECKING:  # only on a cluster
    from consilience.engine.dask import Cluster

__all__ = ["METHODS", "REFINED", "REFINEMENTS", "Method", "fit", "fit_at", "refinement_parameters", "resolve"]

#: Suffix of a method that EM refines.
REFINED = "+em"
#: What a suffix adds to a method: EM with many starts and shrinkage, or EM started from the method and nothing else.
#: A parameter that the method has too goes to both.
REFINEMENTS: Mapping[str, Callable[..., Fit]] = {REFINED: refine, "+plain-em": plain_em}


class _Methods(Mapping[str, Method]):
    """The methods by name: the default and the baseline first, then by the alphabet."""

    def __init__(self) -> None:
        found = iter_modules(consilience.methods.__path__)
        self._modules = {
            "auto": "consilience.auto.auto",  # a layer above: it combines other methods
            "majority": "consilience.methods.majority",
            **{each.name.replace("_", "-"): f"consilience.methods.{each.name}" for each in found if not each.ispkg},
        }

    def __getitem__(self, name: str) -> Method:
        method: Method = import_module(self._modules[name]).METHOD
        return method

    def __contains__(self, name: object) -> bool:
        return name in self._modules  # without an import

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


METHODS: Mapping[str, Method] = _Methods()


def resolve(name: str) -> tuple[Method, str, str]:
    """Return a method by name, the suffix of its refinement ("" if none), and the name; raise if there is none."""
    suffix = next((each for each in REFINEMENTS if name.endswith(each)), "")
    base = name.removesuffix(suffix)
    if base not in METHODS:
        known = f"The methods are {', '.join(METHODS)}; +em and +plain-em refine any"
        raise ParameterError(f"there is no method {name!r}{did_you_mean(base, METHODS, known)}")
    return METHODS[base], suffix, name


def refinement_parameters(suffix: str) -> tuple[str, ...]:
    """Return the parameters of a refinement; none without a suffix."""
    return keywords(REFINEMENTS[suffix]) if suffix else ()


#: Opens the passes over labels in memory that a method is to run on.
Place = Callable[[Annotations], AbstractContextManager[Labels]]


#: Arrays of annotators × classes² that EM holds at once, at most.
_TABLES = 8
#: Classes from which on there has to be a label for every four cells of a single annotator's table; with fewer, answers
#: that repeat are taken for open by default.
#: origin: 20,000 items by three annotators take 1.3 GB with 2,000 classes, 5 GB and minutes with 5,000; alternatives:
#: none; sensitivity: no public set has so many.
_MANY_CLASSES = 2000


def fit(name: str, annotations: Labels, *, place: Place = nullcontext, **options: Any) -> Fit:
    """Run a method by name, with its refinement if it has one.

    Labels that are not in memory, or a ``place`` other than memory, need a method that runs ``everywhere``.
    """
    method, suffix, full = resolve(name)
    check_names(full, options, {*method.parameters, *refinement_parameters(suffix), "callback"})
    check_parameters(options)
    _check_memory(annotations)
    used, classes, inner = annotations.used_classes, annotations.class_ids, annotations
    if (silent := options.get("silent_label")) is not None:  # whoever is silent uses it
        used = used | (np.arange(len(classes)) == classes.codes_of([silent])[0])
    if isinstance(inner, Passes):
        if not used.all():
            unused = [repr(name) for name in classes.take(np.flatnonzero(~used))]
            raise MethodError(
                f"nobody used the classes {', '.join(unused[:5])}; labels on disk need classes without them"
            )
        opened: AbstractContextManager[Labels] = nullcontext(inner)
    else:
        if used.any() and not used.all():
            # no label speaks for a class that nobody used: fit without it, and give it probability zero
            inner = inner.recode(inner.annotator_ids, classes.take(np.flatnonzero(used)))
        opened = place(inner)
    with opened as placed:
        method.check(placed)
        found = method.function(placed, **{k: v for k, v in options.items() if k in method.parameters})
        if suffix:
            taken = refinement_parameters(suffix)
            found = REFINEMENTS[suffix](placed, found, **{k: v for k, v in options.items() if k in taken})
    return found if inner is annotations else found.among(classes, used)


def fit_at(cluster: Cluster | None, name: str, annotations: Annotations, random_state: Any) -> Fit:
    """Run a method, its passes on the workers of a cluster if there is one and the method runs everywhere."""
    method, _, _ = resolve(name)
    options: dict[str, Any] = {"random_state": random_state} if "random_state" in method.parameters else {}
    if cluster is not None and method.everywhere:
        from consilience.engine.dask import OnCluster

        options["place"] = lambda inner: OnCluster(InMemory(inner), cluster)
    return fit(name, annotations, **options)


def _check_memory(annotations: Labels) -> None:
    """Raise if the tables of any method would not fit in memory, or are far larger than the labels could fill."""
    N, M, K = annotations.n_items, annotations.n_annotators, annotations.n_classes
    N = 0 if isinstance(annotations, Passes) else N  # items are not held in memory
    needed = 8.0 * K * (_TABLES * M * K + 2 * N)
    empty = K > _MANY_CLASSES and 4 * annotations.n_labels < K * K
    if empty or needed > 0.8 * available_bytes():
        cause = f"; the table of one annotator has {K * K} cells, and there are {annotations.n_labels} labels in all"
        raise MethodError(
            f"{K} classes for {M} annotators and {N} items would need {needed / 1e9:.0f} GB of memory"
            f"{cause if empty else ''}. "
            f"Is the label column the right one ({annotations.origin.label!r} has {K} different values)? "
            "If it is, merge rare labels first, or say answers='open' if options differ from item to item"
        )
