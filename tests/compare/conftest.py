"""The crowd on which methods are compared."""

from __future__ import annotations

import pytest

import consilience as cs


@pytest.fixture(scope="session")
def crowd() -> cs.datasets.Simulation:
    """Nine annotators of two classes, some of them experts and some spammers."""
    return cs.simulate(300, 9, 2, experts=0.2, spammers=0.3, seed=3)
