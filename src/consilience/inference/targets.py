"""What is estimated: the value that every class stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from consilience.data.ids import Ids
from consilience.exceptions import ParameterError, did_you_mean
from consilience.kernels._arrays import Floats

__all__ = ["MEAN", "class_values", "describe"]

#: The name of the mean of numbers.
MEAN = "mean"


def class_values(of: Any, classes: Ids) -> Floats:
    """Return the value of every class, (K,).

    ``of`` is a class (the share of it), several classes (their share together), "mean" (classes are numbers), or a
    mapping from class to value, such as ``{"left": 1, "tie": 0.5, "right": 0}``.
    """
    if isinstance(of, Mapping):
        return _mapped(of, classes)
    if of is None or (isinstance(of, str) and of == MEAN and MEAN not in list(classes)):
        return _numbers(classes, of)
    chosen = list(of) if isinstance(of, list | tuple | set | frozenset) else [of]
    codes = [_code(each, classes) for each in chosen]
    values = np.zeros(len(classes))
    values[codes] = 1.0
    return values


def describe(of: Any) -> str:
    """Return the figure in words."""
    if isinstance(of, Mapping):
        return "mean of " + ", ".join(f"{name}: {value:g}" for name, value in of.items())
    if of is None or (isinstance(of, str) and of == MEAN):
        return "mean"
    chosen = list(of) if isinstance(of, list | tuple | set | frozenset) else [of]
    return "share of " + " or ".join(map(str, chosen))


def _code(name: Any, classes: Ids) -> int:
    names = list(classes)
    if name in names:
        return names.index(name)
    texts = list(map(str, names))  # the command line has text only
    if str(name) in texts:
        return texts.index(str(name))
    hint = did_you_mean(name, names, f"The classes are {_listed(names)}")
    raise ParameterError(f"of={name!r} is not one of the classes{hint}")


def _mapped(of: Mapping[Any, Any], classes: Ids) -> Floats:
    values = np.full(len(classes), np.nan)
    for name, value in of.items():
        if not np.isfinite(number := float(value)):
            raise ParameterError(f"of gives the class {name!r} the value {number}; values must be finite numbers")
        values[_code(name, classes)] = number
    if np.isnan(values).any():
        missing = [name for name, value in zip(classes, values, strict=True) if np.isnan(value)]
        raise ParameterError(f"of has no value for the class {missing[0]!r}; give one for each of {_listed(classes)}")
    return values


def _numbers(classes: Ids, of: Any) -> Floats:
    try:
        values = np.array([float(name) for name in classes])
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if np.isfinite(values).all():
        return values
    asked = "say what to estimate" if of is None else f"of={of!r} needs classes that are finite numbers"
    raise ParameterError(
        f"{asked}: of=… names a class, several, or maps each class to a value; the classes are {_listed(classes)}"
    )


def _listed(names: Any) -> str:
    shown = [repr(name) for name in list(names)[:10]]
    return ", ".join(shown) + (", …" if len(names) > 10 else "")
