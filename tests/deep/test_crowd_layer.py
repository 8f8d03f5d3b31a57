"""CrowdLayer and DL-MV; they need PyTorch, which ``make test-deep`` installs."""

from typing import Any

import numpy as np
import pytest

from consilience.deep import CrowdLayer, MajorityNetwork
from consilience.exceptions import DataError, ParameterError

pytestmark = pytest.mark.deep


def world(seed: int = 0) -> tuple[Any, Any, Any]:
    """Return three clear classes; one annotator is right, one guesses, and one swaps two of the classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=900)
    X = rng.normal(size=(900, 3)) + 3 * np.eye(3)[truth]
    right = np.where(rng.random(900) < 0.9, truth, rng.integers(3, size=900))
    swaps = np.array([1, 0, 2])[truth]
    labels = np.column_stack([right, right, rng.integers(3, size=900), swaps])
    return X, labels, truth


@pytest.mark.parametrize("variant", ["matrix", "vector"])
def test_learns_the_classes_and_the_loss_falls(variant: Any) -> None:
    X, labels, truth = world()
    model = CrowdLayer(variant=variant, epochs=30).fit(X, labels)
    new, _, expected = world(1)
    assert model.score(new, expected) > 0.9
    assert model.history_[-1] < 0.9 * model.history_[0]
    assert (model.labels_ == truth).mean() > 0.9


def test_the_swapping_annotator_is_found() -> None:
    X, labels, _ = world()
    model = CrowdLayer(epochs=60).fit(X, labels)
    layer = model.layers_[0].detach().numpy()[3]
    assert layer.argmax(axis=0).tolist() == [1, 0, 2]


def test_majority_network_and_missing_labels() -> None:
    X, labels, truth = world()
    labels = np.where(np.random.default_rng(0).random(labels.shape) < 0.5, labels, -1)
    model = MajorityNetwork(epochs=30).fit(X, labels[:, :2])
    assert (model.labels_ == truth).mean() > 0.9
    again = MajorityNetwork(epochs=30).fit(X, labels[:, :2])
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-5)


def test_bad_input() -> None:
    X, labels, _ = world()
    with pytest.raises(ParameterError, match="variant"):
        CrowdLayer(variant="tensor").fit(X, labels)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="rows"):
        CrowdLayer().fit(X[:10], labels)
