"""Whatever may be a random state: the same one gives the same chance, and nonsense is refused."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.exceptions import ParameterError
from consilience.validation import generator, numpy_seed, whole_seed


def test_what_numpy_takes_is_passed_on_and_an_old_state_draws_a_seed() -> None:
    fresh = np.random.default_rng(1)
    for given in (None, 7, fresh):
        assert numpy_seed(given) is given
    assert numpy_seed(np.random.RandomState(1)) == np.random.RandomState(1).randint(2**31)


def test_whole_seeds() -> None:
    assert whole_seed(np.int64(7)) == 7
    assert whole_seed(2**32 - 1) == 2**32 - 1
    for make in (np.random.default_rng, np.random.RandomState, np.random.SeedSequence):
        assert whole_seed(make(1)) == whole_seed(make(1)) != whole_seed(make(2))
    assert whole_seed(None) != whole_seed(None)


@pytest.mark.parametrize("turn", [generator, whole_seed])
@pytest.mark.parametrize("bad", [-1, "seed", 0.5])
def test_nonsense_is_refused(turn: object, bad: object) -> None:
    assert callable(turn)
    with pytest.raises(ParameterError, match="random_state"):
        turn(bad)


def test_a_seed_too_large_for_k_means_is_refused() -> None:
    with pytest.raises(ParameterError, match="from 0 to 4294967295"):
        whole_seed(2**32)
