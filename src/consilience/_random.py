"""What is given as ``random_state``, in the three forms that the library passes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import ParameterError

__all__ = ["generator", "numpy_seed", "whole_seed"]

#: The most that scikit-learn's k-means takes for a seed.
_LARGEST_SEED = 2**32 - 1


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
