"""One source of chance for whatever is given as ``random_state``."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import ParameterError

__all__ = ["generator"]


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
