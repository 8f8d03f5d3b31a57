from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.datasets import simulate
from consilience.datasets.networks import simulate_network
from consilience.exceptions import ParameterError


@pytest.mark.parametrize("agreement", [0.0, 0.5, 1.0])
def test_the_share_of_edges_within_a_class(agreement: float) -> None:
    prior = [0.7, 0.2, 0.1]
    network = simulate_network(20_000, 5, 3, agreement=agreement, degree=6, prior=prior, seed=0)
    within = np.mean(network.truth[network.edges[:, 0]] == network.truth[network.edges[:, 1]])
    assert within == pytest.approx(agreement + (1 - agreement) * np.square(prior).sum(), abs=0.01)
    assert len(network.edges) == 60_000


def test_the_crowd_is_that_of_simulate_and_the_seed_decides() -> None:
    network, crowd = simulate_network(100, 7, 3, seed=4), simulate(100, 7, 3, seed=4)
    assert network.annotations == crowd.annotations
    np.testing.assert_array_equal(network.truth, crowd.truth)
    np.testing.assert_array_equal(simulate_network(100, 7, 3, seed=4).edges, network.edges)
    assert not np.array_equal(simulate_network(100, 7, 3, seed=5).edges, network.edges)


@pytest.mark.parametrize("options", [{"agreement": 1.5}, {"degree": 0}, {"agreement": -0.1}])
def test_what_makes_no_sense(options: Any) -> None:
    with pytest.raises(ParameterError):
        simulate_network(10, 3, 2, **options)
