"""Names to codes against a Python dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.kernels.names import Names
from consilience.kernels.rows import hash_words


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("n_names", "dtype"), [(128, np.int8), (129, np.int16), (32768, np.int16), (32769, np.int32)])
def test_codes_are_those_of_a_dictionary(narrow: bool, n_names: int, dtype: type) -> None:
    rng = np.random.default_rng(n_names)
    words = rng.integers(0, n_names, 100_000)
    words[-n_names:] = np.arange(n_names)  # the last names come late
    names = Names(narrow=narrow)
    for part in np.array_split(words, 7):
        names.add(hash_words(part.view(np.uint64)), np.arange(names.rows, names.rows + part.size))
    expected: dict[int, int] = {}
    codes = [expected.setdefault(word, len(expected)) for word in words.tolist()]
    assert names.codes.dtype == (dtype if narrow else np.int32)
    assert names.codes.tolist() == codes
    np.testing.assert_array_equal(words[names.place], list(expected))
    np.testing.assert_array_equal(names.find(hash_words(words.view(np.uint64))), codes)
    assert (names.find(hash_words(words.view(np.uint64) + np.uint64(n_names))) == -1)[words == n_names - 1].all()
