from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.networks import citations, f_score, labels_of, music
from tests.conftest import ODD_MATRICES, sound

from consilience.data.annotations import Annotations
from consilience.datasets.networks import NetworkSimulation, simulate_network
from consilience.exceptions import ConvergenceWarning, DataWarning, FewLabelsWarning, ParameterError
from consilience.fitting.em import Parameters
from consilience.methods.base import registry
from consilience.methods.ds_em import dawid_skene_em
from consilience.structured.network_em import network_em


@pytest.fixture(scope="module")
def network() -> NetworkSimulation:
    return simulate_network(1500, 12, 3, agreement=0.8, labels_per_item=3, accuracy=(0.4, 0.7), seed=3)


def accuracy(posterior: Any, network: NetworkSimulation) -> float:
    return float((posterior.argmax(axis=1) == network.truth).mean())


def without_edges_of(network: NetworkSimulation, items: Any) -> Any:
    return network.edges[~np.isin(network.edges, items).any(axis=1)]


@pytest.mark.parametrize("inference", ["mean-field", "icm"])
@pytest.mark.parametrize("method", ["majority", "ds-em"])
def test_neighbours_help(network: NetworkSimulation, method: str, inference: Any) -> None:
    alone = registry.fit(method, network.annotations)
    fit = network_em(network.annotations, network.edges, method=method, inference=inference)
    # ICM may go to and fro between two labellings: Alg. 4.3 climbs no common objective
    assert fit.converged or inference == "icm"
    assert sound(fit)
    assert accuracy(fit.posterior, network) > accuracy(alone.posterior, network) + 0.08
    assert fit.details["start"] == method


def test_annotators_are_learned_better_than_without_the_graph(network: NetworkSimulation) -> None:
    alone = registry.fit("ds-em", network.annotations)
    fit = network_em(network.annotations, network.edges)
    error = [np.abs(m.confusions - network.model.confusions).mean() for m in (alone.model, fit.model)]
    assert error[1] < 0.8 * error[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_that_says_nothing_does_no_harm(seed: int) -> None:
    network = simulate_network(1500, 12, 3, agreement=0.0, labels_per_item=4, accuracy=(0.5, 0.8), seed=seed)
    alone = registry.fit("ds-em+em", network.annotations)
    fit = network_em(network.annotations, network.edges, method="ds-em")
    assert fit.details["delta"] < 0.15
    assert accuracy(fit.posterior, network) > accuracy(alone.posterior, network) - 0.01


def test_labels_that_err_together_count_less() -> None:
    network = simulate_network(2000, 8, 3, degree=5, agreement=0.7, labels_per_item=8, accuracy=(0.5, 0.6), seed=1)
    a = network.annotations
    said = a.label.astype(np.int64).reshape(-1, 8).copy()
    alike = np.random.default_rng(0).random(len(said)) < 0.4
    said[alike] = said[alike, :1]
    herd = Annotations.from_matrix(said)
    found, full = network_em(herd, network.edges), network_em(herd, network.edges, correlation=0)
    assert found.converged
    assert 0.1 < found.details["correlation"] < 0.5
    assert accuracy(found.posterior, network) > accuracy(full.posterior, network)
    # and where they do not, it shows
    assert network_em(a, network.edges).details["correlation"] == 0.0


# ---- where it must equal the i.i.d. model ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["majority", "ds-em", "ibcc"])
def test_without_coupling_it_is_the_crowd_method(network: NetworkSimulation, method: str) -> None:
    alone = registry.fit(method, network.annotations)
    for delta in (0, 0.0, np.zeros(network.annotations.n_items)):
        fit = network_em(network.annotations, network.edges, method=method, delta=delta)
        np.testing.assert_allclose(fit.posterior, alone.posterior, atol=1e-10)
        np.testing.assert_allclose(fit.model.confusions, alone.model.confusions, atol=1e-10)


@pytest.mark.parametrize("field", ["stationary", "prior"])
def test_with_hardly_any_coupling_it_is_dawid_and_skenes_em(network: NetworkSimulation, field: Any) -> None:
    a = network.annotations
    start = registry.fit("majority", a)
    # the same passes, by code that knows no graph
    expected = dawid_skene_em(
        a,
        smoothing=0.1,
        max_iter=9,
        tol=0,
        accelerate=False,
        start=Parameters(start.model.prior, start.model.confusions),
    )
    fit = network_em(
        a, network.edges, delta=1e-13, correlation=0, field=field, smoothing=0.1, shrinkage=0.0, max_iter=10, tol=0
    )
    np.testing.assert_allclose(fit.model.confusions, expected.model.confusions, atol=1e-10)
    np.testing.assert_allclose(fit.posterior, expected.posterior, atol=1e-10)
    np.testing.assert_allclose(fit.history[:9], expected.history, rtol=1e-9)
    assert fit.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("field", ["stationary", "uniform"])
@pytest.mark.parametrize("inference", ["mean-field", "icm"])
def test_items_without_neighbours_have_the_posterior_of_the_model(
    network: NetworkSimulation, inference: Any, field: Any
) -> None:
    alone = np.arange(0, 1500, 10)
    fit = network_em(network.annotations, without_edges_of(network, alone), inference=inference, field=field, delta=1.0)
    expected = fit.model.posterior(network.annotations)
    np.testing.assert_allclose(fit.posterior[alone], expected[alone], atol=1e-10)
    assert np.abs(fit.posterior - expected).max() > 0.5  # the others do not


# ---- what the answer may not depend on ------------------------------------------------------------------


def test_the_order_of_rows_and_edges_does_not_matter(network: NetworkSimulation) -> None:
    frame = network.annotations.to_frame("pandas")
    rng = np.random.default_rng(0)
    mixed = frame.sample(frac=1.0, random_state=0)
    edges = rng.permutation(network.edges)[:, ::-1]
    first = network_em(Annotations.from_frame(frame), network.edges, method="majority")
    other = Annotations.from_frame(mixed)
    second = network_em(other, edges, method="majority")
    at = other.item_ids.codes_of(network.annotations.item_ids.to_arrow())
    np.testing.assert_allclose(second.posterior[at], first.posterior, atol=1e-8)
    assert second.details["delta"] == pytest.approx(first.details["delta"], abs=1e-6)


def test_renaming_classes_renames_the_answer(network: NetworkSimulation) -> None:
    a = network.annotations
    order = np.array([2, 0, 1])
    renamed = Annotations(
        a.indptr, a.annotator, order[a.label], items=a.item_ids, annotators=a.annotator_ids, classes=a.class_ids
    )
    first, second = network_em(a, network.edges), network_em(renamed, network.edges)
    np.testing.assert_allclose(second.posterior[:, order], first.posterior, atol=1e-8)


def test_threads_and_repetition_give_the_same_bytes(
    network: NetworkSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = network_em(network.annotations, network.edges)
    monkeypatch.setenv("CONSILIENCE_THREADS", "1")
    assert network_em(network.annotations, network.edges).posterior.tobytes() == first.posterior.tobytes()


# ---- what can be asked of it ----------------------------------------------------------------------------


def test_gold_stays_and_speaks_to_neighbours() -> None:
    votes = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 1]]
    chain = [(0, 1), (1, 2), (3, 4)]
    with_gold = Annotations.from_matrix(votes).with_gold({2: 1, 4: 0})
    for inference in ("mean-field", "icm"):
        fit = network_em(with_gold, chain, delta=3.0, inference=inference, max_iter=50)
        np.testing.assert_array_equal(fit.posterior[[2, 4]], [[0, 1], [1, 0]])
        assert np.isfinite(fit.log_likelihood)


def test_an_item_without_labels_takes_those_of_its_neighbours() -> None:
    votes = np.array([[0, 0, 0]] * 5 + [[1, 1, 1]] * 5 + [[-1, -1, -1]])
    edges = [(n, n + 1) for n in range(4)] + [(n, n + 1) for n in range(5, 10)]
    fit = network_em(Annotations.from_matrix(votes), edges, delta=2.0)
    assert fit.posterior[10, 1] > 0.8


def test_a_class_that_nobody_used_has_no_probability(network: NetworkSimulation) -> None:
    frame = network.annotations.to_frame("pandas")
    with pytest.warns(DataWarning, match="nobody used"):
        wide = Annotations.from_frame(frame, classes=[0, 7, 1, 2])
    fit, plain = network_em(wide, network.edges), network_em(network.annotations, network.edges)
    assert fit.posterior[:, 1].max() == 0
    np.testing.assert_allclose(fit.posterior[:, [0, 2, 3]], plain.posterior, atol=1e-10)


def test_one_delta_for_each_item(network: NetworkSimulation) -> None:
    N = network.annotations.n_items
    one = network_em(network.annotations, network.edges, delta=1.5)
    each = network_em(network.annotations, network.edges, delta=np.full(N, 1.5))
    np.testing.assert_allclose(each.posterior, one.posterior, atol=1e-10)
    some = np.where(np.arange(N) < N // 2, 0.0, 3.0)
    fit = network_em(network.annotations, network.edges, delta=some)
    # edges within the first half have no strength
    inside = (network.edges < N // 2).all(axis=1)
    same = network_em(network.annotations, network.edges[~inside], delta=some)
    np.testing.assert_allclose(fit.posterior, same.posterior, atol=1e-10)


def test_heavier_edges_are_stronger_couplings(network: NetworkSimulation) -> None:
    frame = pd.DataFrame({"source": network.edges[:, 0], "target": network.edges[:, 1], "weight": 2.0})
    heavy = network_em(network.annotations, frame, delta=0.7, field="uniform")
    plain = network_em(network.annotations, network.edges, delta=1.4, field="uniform")
    np.testing.assert_allclose(heavy.posterior, plain.posterior, atol=1e-10)


@pytest.mark.parametrize("votes", ODD_MATRICES)
@pytest.mark.parametrize("inference", ["mean-field", "icm"])
def test_odd_labels_give_probabilities(votes: Any, inference: Any) -> None:
    annotations = Annotations.from_matrix(votes)
    N = annotations.n_items
    edges = [(n, (n + 1) % N) for n in range(N)]
    fit = network_em(annotations, edges, inference=inference)
    assert np.isfinite(fit.posterior).all()
    np.testing.assert_allclose(fit.posterior.sum(axis=1), 1.0)


def test_extreme_coupling_stays_finite(network: NetworkSimulation) -> None:
    fit = network_em(network.annotations, network.edges, delta=500.0)
    assert np.isfinite(fit.posterior).all()
    assert np.isfinite(fit.history).all()


def test_a_graph_without_edges_is_said(network: NetworkSimulation) -> None:
    fit = network_em(network.annotations, np.array([[3, 3]]))
    assert [kind for _, kind in fit.cautions] == [FewLabelsWarning]
    np.testing.assert_array_equal(fit.posterior, registry.fit("majority", network.annotations).posterior)


def test_running_out_is_said_and_the_callback_stops(network: NetworkSimulation) -> None:
    fit = network_em(network.annotations, network.edges, max_iter=3)
    assert not fit.converged
    assert [kind for _, kind in fit.cautions] == [ConvergenceWarning]
    assert len(fit.history) == 3
    seen: list[int] = []

    def stop(progress: Any) -> bool:
        seen.append(progress.iteration)
        return bool(progress.iteration == 5)

    network_em(network.annotations, network.edges, callback=stop)
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "options",
    [
        {"delta": -1.0},
        {"delta": float("nan")},
        {"delta": "much"},
        {"delta": [1.0, 2.0]},
        {"inference": "gibbs"},
        {"field": "none"},
        {"correlation": 1.5},
        {"correlation": "some"},
        {"smoothing": -1},
        {"tol": 2},
        {"method": "magic"},
    ],
)
def test_parameters_that_make_no_sense(network: NetworkSimulation, options: Any) -> None:
    with pytest.raises(ParameterError):
        network_em(network.annotations, network.edges, **options)


# ---- public data ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("data_folder")
def test_cora_gains_what_the_thesis_gains() -> None:
    X, y, edges = citations("cora")
    said = labels_of(X, y, 150, seed=200)
    annotations = Annotations.from_matrix(said)
    votes = f_score(registry.fit("majority", annotations).choice.best.astype(np.int64), y)
    fit = network_em(annotations, edges)
    # Table 4.3: 0.6412 on the graph, 0.363 above the votes (there 0.2785)
    assert f_score(fit.choice.best.astype(np.int64), y) > max(0.7, votes + 0.3)
    assert 1.0 < fit.details["delta"] < 5.0


@pytest.mark.usefixtures("data_folder")
def test_music_is_better_with_its_nearest_songs() -> None:
    annotations, truth, graph = music()
    fit = network_em(annotations, graph)
    assert f_score(fit.choice.best.astype(np.int64), truth) > 0.7649  # Alg. 4.4 in Table 4.3; the votes have 0.7046


@pytest.mark.parametrize("inference", ["mean-field", "icm"])
def test_potentials_of_pairs_of_classes(inference: Any) -> None:
    """On a ring whose neighbours differ, agreement misleads and its opposite helps; the identity is the default."""
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 2
    votes = np.where(rng.random((200, 3)) < 0.75, truth[:, None], 1 - truth[:, None])
    a = Annotations.from_matrix(votes)
    ring = [(n, (n + 1) % 200) for n in range(200)]
    options: dict[str, Any] = {"delta": 1.5, "field": "uniform", "inference": inference, "correlation": 0.0}

    def wrong(**more: Any) -> float:
        return float(np.mean(network_em(a, ring, **options, **more).choice.best != truth))

    alone = float(np.mean((votes.mean(axis=1) > 0.5) != truth))
    assert wrong(potentials=-np.eye(2)) < 0.6 * alone < alone < wrong()
    same = network_em(a, ring, potentials=np.eye(2), **options)
    np.testing.assert_allclose(same.posterior, network_em(a, ring, **options).posterior, atol=1e-12)
    # -[k = k'] and [k != k'] differ by a constant for every edge
    other = network_em(a, ring, potentials=1 - np.eye(2), **options)
    np.testing.assert_allclose(
        other.posterior, network_em(a, ring, potentials=-np.eye(2), **options).posterior, atol=1e-9
    )
    with pytest.raises(ParameterError, match="need a number for delta"):
        network_em(a, ring, potentials=np.eye(2))
    with pytest.raises(ParameterError, match="symmetric matrix for the 2 classes"):
        network_em(a, ring, delta=1.0, potentials=[[1.0, 0.0], [1.0, 1.0]])


def test_more_sweeps_of_icm_never_lower_the_energy() -> None:
    network = simulate_network(300, 8, 3, degree=4, agreement=0.8, labels_per_item=2, accuracy=(0.4, 0.6), seed=1)
    fits = [
        network_em(network.annotations, network.edges, inference="icm", delta=1.0, sweeps=sweeps, max_iter=1, tol=0)
        for sweeps in (1, 50)
    ]
    assert not np.array_equal(fits[0].posterior, fits[1].posterior)
    with pytest.raises(ParameterError, match="sweeps"):
        network_em(network.annotations, network.edges, sweeps=0)
