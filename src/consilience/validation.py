"""Validation of parameters: every check raises a ParameterError that says what was expected and what came.

``CONSTRAINTS`` is the table of the parameters that methods share; the functions below check what is specific to one
caller.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from consilience.exceptions import ParameterError

__all__ = [
    "CONSTRAINTS",
    "check_names",
    "check_parameters",
    "check_seed",
    "generator",
    "keywords",
    "number",
    "numpy_seed",
    "one_of",
    "whole",
    "whole_seed",
]

#: The largest seed that scikit-learn's k-means takes.
_LARGEST_SEED = 2**32 - 1


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    return _is_number(value) and 0 <= value < float("inf")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


#: A test, and what the value must be.
Constraint = tuple[Callable[[Any], Any], str]

_AMOUNT: Constraint = (_is_amount, "a number ≥ 0")
_POSITIVE: Constraint = (lambda v: _is_amount(v) and v > 0, "a number > 0")
_COUNT: Constraint = (_is_count, "a whole number ≥ 1")
_SHARE: Constraint = (lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 up to 1")
_FLAG: Constraint = (lambda v: isinstance(v, bool), "True or False")

#: What the parameters of methods may be, by name.
CONSTRAINTS: Mapping[str, Constraint] = {
    "max_iter": (lambda v: _is_amount(v) and int(v) == v, "a whole number ≥ 0"),
    "tol": _SHARE,
    "alpha": _SHARE,
    "accuracy": (lambda v: _is_number(v) and 0 < v < 1, "a number between 0 and 1"),
    "decay": (lambda v: v is None or (_is_number(v) and 0 < v < 1), "a number between 0 and 1, or None"),
    "options": (lambda v: v is None or (_is_count(v) and v >= 2), "a whole number ≥ 2, or None"),
    "spread": (lambda v: v is None or _is_amount(v), "a number ≥ 0, or None"),
    "groups": (lambda v: v is None or _is_count(v), "a whole number ≥ 1, or None"),
    "prior": (lambda v: v in ("learned", "uniform"), "'learned' or 'uniform'"),
    "imbalance": (lambda v: v in ("likelihood", "tensor"), "'likelihood' or 'tensor'"),
    "rule": (lambda v: v in ("map", "ml"), "'map' or 'ml'"),
    "places": (lambda v: v is None or _is_count(v), "a whole number ≥ 1, or None"),
    "shared": (lambda v: v is None or isinstance(v, bool), "True, False or None"),
    "silence": (lambda v: v in ("auto", "random", "informative"), "'auto', 'random' or 'informative'"),
    "callback": (lambda v: v is None or callable(v), "a function or None"),
    "em_rounds": (lambda v: v is None or _is_count(v), "a whole number ≥ 1, or None"),
    "xi": (lambda v: v is None or (_is_amount(v) and v > 0), "a number > 0, or None"),
    **dict.fromkeys(("em_floor", "floor"), _SHARE),
    **dict.fromkeys(("smoothing", "shrinkage", "diagonal", "evidence"), _AMOUNT),
    **dict.fromkeys(("concentration", "penalty", "annotator_penalty", "item_penalty", "radius"), _POSITIVE),
    **dict.fromkeys(("accelerate", "reweigh", "count_weights", "center", "normalize", "coin", "empirical"), _FLAG),
    **dict.fromkeys(("fallback", "shrink_columns"), _FLAG),
    **dict.fromkeys(("starts", "rotations", "subtypes", "partitions", "rounds"), _COUNT),
}


def check_parameters(values: Mapping[str, Any]) -> None:
    """Raise on the first parameter whose value is outside its constraint."""
    for name, value in values.items():
        if name in CONSTRAINTS and not CONSTRAINTS[name][0](value):
            raise ParameterError(f"{name} must be {CONSTRAINTS[name][1]}, not {value!r}")


def check_names(method: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise on the first option that a method does not have."""
    if unknown := sorted(set(options) - set(known)):
        raise ParameterError(f"{method} has no parameter {unknown[0]!r}; it takes {', '.join(sorted(known))}")


def keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the keyword-only parameters of a function."""
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY)


def whole(name: str, value: Any, most: int | None = None, of: str = "", *, least: int = 1) -> int:
    """Return a whole number from ``least`` to ``most``; ``of`` is the plural of what is counted, for the message."""
    good = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not good or value < least or (most is not None and value > most):
        bound = f"≥ {least}" if most is None else f"from {least} to {most}{of and ' '}{of}"
        raise ParameterError(f"{name} must be a whole number {bound}, not {value!r}")
    return int(value)


def number(name: str, value: Any, *, zero: bool = False, none: bool = False) -> None:
    """Raise unless the value is a finite number > 0, or ≥ 0 with ``zero``; ``none`` also allows None."""
    if none and value is None:
        return
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not good or not np.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ParameterError(f"{name} must be a number {'≥' if zero else '>'} 0{' or None' * none}, not {value!r}")


def one_of(name: str, value: Any, kinds: Iterable[str]) -> None:
    """Raise unless the value is one of the words ``kinds``."""
    words = tuple(kinds)
    if not (isinstance(value, str) and value in words):
        raise ParameterError(f"{name} must be one of {', '.join(words)}, not {value!r}")


def check_seed(seed: Any) -> None:
    """Raise unless numpy's ``default_rng`` takes this as a seed."""
    if not isinstance(seed, np.random.RandomState):
        generator(seed, "seed")


def numpy_seed(random_state: Any) -> Any:
    """Return a seed for numpy's ``default_rng``: a RandomState is drawn from, anything else is passed on."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    generator(random_state)  # raises where it is no seed
    return random_state


def generator(random_state: Any, name: str = "random_state") -> np.random.Generator:
    """Return the generator for a whole number, None (fresh every time), SeedSequence, Generator or RandomState.

    A Generator or RandomState is drawn from, so a second fit with the same one continues where the first ended.
    """
    if isinstance(random_state, np.random.RandomState):
        # its own bit generator has no seed sequence that could spawn children
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{name} must be a whole number ≥ 0, None, a SeedSequence, Generator or RandomState, not {random_state!r}"
        ) from error


def whole_seed(random_state: Any) -> int:
    """Return one whole number, for what is seeded repeatedly in the same way."""
    if isinstance(random_state, int | np.integer):
        if not 0 <= random_state <= _LARGEST_SEED:
            raise ParameterError(f"random_state must be from 0 to {_LARGEST_SEED}, not {random_state!r}")
        return int(random_state)
    return int(generator(random_state).integers(2**31))
