"""The model: posterior, sampling, alignment, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import brute_force, random_model

from consilience.data.annotations import Annotations
from consilience.exceptions import FormatError, IdError, ParameterError
from consilience.models.dawid_skene import DawidSkene


def test_posterior_and_likelihood_are_the_definition() -> None:
    model = random_model(5, 3, seed=0)
    a, _ = model.sample(50, label_probability=0.7, random_state=1)
    posterior, _, total = brute_force(a, model.prior, model.confusions)
    np.testing.assert_allclose(model.posterior(a), posterior, atol=1e-12)
    assert model.log_likelihood(a) == pytest.approx(total)


def test_likelihood_of_everything_sums_to_one() -> None:
    """Over all label patterns of one item, probabilities must add up to 1."""
    model = random_model(3, 2, seed=3)
    patterns = np.array([[i, j, k] for i in range(2) for j in range(2) for k in range(2)])
    total = sum(
        np.exp(model.log_likelihood(Annotations.from_matrix(p[None, :], classes=[0, 1]))) for p in patterns[1:-1]
    )
    for constant in (patterns[:1], patterns[-1:]):
        with pytest.warns(match="nobody used"):
            total += np.exp(model.log_likelihood(Annotations.from_matrix(constant, classes=[0, 1])))
    assert total == pytest.approx(1.0)


def test_annotators_are_found_by_name_and_strangers_are_average() -> None:
    confusions = np.stack([np.array([[0.9, 0.2], [0.1, 0.8]]), np.array([[0.6, 0.5], [0.4, 0.5]])])
    model = DawidSkene(np.array([0.5, 0.5]), confusions, ["no", "yes"], ["ann", "bob"])  # type: ignore[arg-type]
    new = Annotations.from_matrix(np.array([["yes", "no"]], object), annotators=["zoe", "ann"])
    average = confusions.mean(axis=0)
    joint = 0.5 * average[1] * confusions[0, 0]
    np.testing.assert_allclose(model.posterior(new)[0], joint / joint.sum())


def test_unknown_label_is_an_error() -> None:
    model = random_model(2, 2, seed=0)
    with pytest.raises(IdError, match="not among the classes"):
        model.posterior(Annotations.from_matrix([[0, 5]]))


def test_samples_follow_the_model() -> None:
    model = random_model(4, 3, seed=5)
    a, truth = model.sample(60_000, random_state=0)
    np.testing.assert_allclose(np.bincount(truth) / truth.size, model.prior, atol=5 * np.sqrt(0.25 / 60_000))
    item = a.item_of_label()
    for m in range(4):
        mine = a.annotator == m
        table = np.zeros((3, 3))
        np.add.at(table, (a.label[mine], truth[item[mine]]), 1)
        column = table.sum(axis=0)
        assert np.all(np.abs(table / column - model.confusions[m]) < 5 * np.sqrt(0.25 / column))


def test_labels_per_item_are_different_annotators() -> None:
    a, _ = random_model(9, 2, seed=0).sample(500, labels_per_item=2, random_state=0)
    pairs = a.annotator.reshape(500, 2)
    assert np.all(pairs[:, 0] != pairs[:, 1])
    counts = np.bincount(a.annotator, minlength=9)
    assert np.all(np.abs(counts - 1000 / 9) < 5 * np.sqrt(1000 / 9))


def test_alignment_undoes_a_permutation() -> None:
    model = random_model(6, 4, seed=1, skill=0.7)
    shuffled = model.permute([2, 0, 3, 1])
    assert shuffled != model
    assert shuffled.align(model) == model
    assert shuffled.align("classes") == model


def test_alignment_is_the_best_of_all_permutations() -> None:
    from itertools import permutations

    one, other = random_model(3, 4, seed=2, skill=0.2), random_model(3, 4, seed=9, skill=0.2)
    best = min(float(((one.permute(p).confusions - other.confusions) ** 2).sum()) for p in permutations(range(4)))
    assert float(((one.align(other).confusions - other.confusions) ** 2).sum()) == pytest.approx(best)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="shape"):
        DawidSkene(np.ones(2) / 2, np.ones((1, 3, 3)) / 3, [0, 1], ["a"])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="sum to one"):
        DawidSkene(np.ones(2) / 2, np.ones((1, 2, 2)), [0, 1], ["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [[7, 8], ["7", "8"], [True, False], [0.5, 1.5]])
def test_files_keep_values_and_types(tmp_path: Path, names: list[object]) -> None:
    model = DawidSkene(np.array([0.3, 0.7]), random_model(1, 2, 0).confusions, names, ["a"])  # type: ignore[arg-type]
    model.save(tmp_path / "model.npz")
    assert DawidSkene.load(tmp_path / "model.npz") == model
    assert list(DawidSkene.load(tmp_path / "model.npz").classes) == names


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    (tmp_path / "text.npz").write_text("hello")
    for name in ("other.npz", "text.npz", "absent.npz"):
        with pytest.raises(FormatError):
            DawidSkene.load(tmp_path / name)
