"""Validation of parameters: every check raises a ParameterError that says what was expected and what came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Ints

__all__ = ["chosen_rows", "generator", "number", "numpy_seed", "one_of", "whole", "whole_seed"]

#: The most that scikit-learn's k-means takes for a seed.
_LARGEST_SEED = 2**32 - 1


def whole(name: str, value: Any, most: int | None = None, of: str = "") -> int:
    """Give a whole number from 1 to ``most``; ``of`` says what there are so many of."""
    good = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not good or value < 1 or (most is not None and value > most):
        bound = "≥ 1" if most is None else f"from 1 to {most}{of and ' '}{of}"
        raise ParameterError(f"{name} must be a whole number {bound}, not {value!r}")
    return int(value)


def number(name: str, value: Any, *, zero: bool = False, none: bool = False) -> None:
    """Refuse what is no finite number above 0, or at least 0 with ``zero``; ``none`` lets None pass."""
    if none and value is None:
        return
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not good or not np.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ParameterError(f"{name} must be a number {'≥' if zero else '>'} 0{' or None' * none}, not {value!r}")


def one_of(name: str, value: Any, kinds: Iterable[str]) -> None:
    """Refuse what is not among the words ``kinds``."""
    words = tuple(kinds)
    if not (isinstance(value, str) and value in words):
        raise ParameterError(f"{name} must be one of {', '.join(words)}, not {value!r}")


def chosen_rows(rows: Any, n_samples: int) -> Ints:
    """Give the numbers of the samples that ``rows`` chooses: numbers, a mask of all samples, or None for all."""
    if rows is None:
        return np.arange(n_samples)
    chosen: Any = np.asarray(rows)
    if chosen.dtype == np.bool_ and chosen.shape == (n_samples,):
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise ParameterError(f"rows must be numbers of samples or a mask of all {n_samples}, not {rows!r}")
    if chosen.size and not 0 <= int(chosen.min()) <= int(chosen.max()) < n_samples:
        raise ParameterError(f"rows must be numbers from 0 to {n_samples - 1}, not {rows!r}")
    numbers: Ints = chosen.astype(np.int64)
    return numbers


def numpy_seed(random_state: Any) -> Any:
    """Give what numpy's ``default_rng`` takes: a RandomState gives a seed of its own, all else is passed on."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state


def generator(random_state: Any) -> np.random.Generator:
    """Give the generator of a whole number, None (fresh every time), SeedSequence, Generator or RandomState.

    A Generator or RandomState is drawn from, so that a second fit with the same one goes on where the first ended.
    """
    if isinstance(random_state, np.random.RandomState):
        # its own bits have no sequence of seeds, from which others draw children
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"random_state must be a whole number ≥ 0, None, a SeedSequence, Generator or RandomState, "
            f"not {random_state!r}"
        ) from error


def whole_seed(random_state: Any) -> int:
    """Give one whole number, for what must be seeded again and again in the same way."""
    if isinstance(random_state, int | np.integer):
        if not 0 <= random_state <= _LARGEST_SEED:
            raise ParameterError(f"random_state must be from 0 to {_LARGEST_SEED}, not {random_state!r}")
        return int(random_state)
    return int(generator(random_state).integers(2**31))
