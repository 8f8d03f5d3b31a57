from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import consilience as cs
from consilience import Annotations
from consilience.data.silence import filled
from consilience.datasets.networks import NetworkSimulation, simulate_network
from consilience.exceptions import FewLabelsWarning, ParameterError
from consilience.structured import network_consensus
from consilience.structured.network_consensus import NetworkConsensus, aggregate_network
from consilience.structured.network_em import network_em


@pytest.fixture(scope="module")
def network() -> NetworkSimulation:
    return simulate_network(600, 8, 3, agreement=0.8, labels_per_item=3, accuracy=(0.4, 0.8), seed=1)


def test_the_class_passes_every_parameter_on(network: NetworkSimulation, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def spy(annotations: Any, graph: Any, **options: Any) -> Any:
        seen.update(options)
        return network_em(annotations, graph)

    monkeypatch.setattr(network_consensus, "network_em", spy)
    given: dict[str, Any] = {
        "method": "ds-em",
        "delta": 0.3,
        "correlation": 0.2,
        "field": "prior",
        "inference": "icm",
        "smoothing": 0.4,
        "shrinkage": 0.6,
        "must_link": [(0, 1)],
        "cannot_link": [(2, 3)],
        "link_strength": 3.0,
        "max_iter": 77,
        "tol": 1e-3,
        "random_state": 5,
        "sweeps": 5,
        "potentials": np.eye(2),
        "callback": print,
        "engine": "dask",
    }
    NetworkConsensus(**given).fit(network.annotations, graph=network.edges)
    assert seen == given
    assert set(given) == set(NetworkConsensus().get_params())


def test_what_a_fitted_estimator_has(network: NetworkSimulation) -> None:
    model = NetworkConsensus(random_state=0).fit(network.annotations, graph=network.edges)
    fit = network_em(network.annotations, network.edges)
    np.testing.assert_array_equal(model.probas_, fit.posterior)
    np.testing.assert_array_equal(model.labels_, fit.choice.best)
    assert model.delta_ == fit.details["delta"] > 0.5
    assert model.history_ == fit.history
    assert model.converged_
    assert model.n_iter_ == len(fit.history)
    np.testing.assert_array_equal(model.predict(), model.labels_)
    np.testing.assert_array_equal(model.predict_proba(), model.probas_)
    # other items are judged by their labels alone
    np.testing.assert_allclose(model.predict_proba(network.annotations), fit.model.posterior(network.annotations))
    assert clone(model).get_params() == model.get_params()


def test_long_frames_come_back_as_series(network: NetworkSimulation) -> None:
    frame = network.annotations.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})
    edges = pd.DataFrame(network.edges, columns=["source", "target"])
    labels = NetworkConsensus().fit_predict(frame, graph=edges)
    assert labels.index.name == "task"
    probabilities = NetworkConsensus().fit_predict_proba(frame, graph=edges)
    assert (probabilities.idxmax(axis=1) == labels).all()


def test_gold_is_held(network: NetworkSimulation) -> None:
    gold = {n: int((network.truth[n] + 1) % 3) for n in range(20)}
    labels = NetworkConsensus().fit_predict(network.annotations, graph=network.edges, gold=gold)
    assert labels[:20].tolist() == list(gold.values())


def test_a_graph_is_needed(network: NetworkSimulation) -> None:
    with pytest.raises(ParameterError, match="needs to know which items are neighbours"):
        NetworkConsensus().fit(network.annotations)


def test_aggregate_gives_a_consensus_that_can_be_saved(network: NetworkSimulation, tmp_path: Path) -> None:
    consensus = aggregate_network(network.annotations, network.edges, "ds-em+network", seed=3, delta=1.0)
    fit = network_em(network.annotations, network.edges, method="ds-em", delta=1.0)
    np.testing.assert_array_equal(consensus.posterior, fit.posterior)
    run = consensus.run
    assert (run["method"], run["delta"], run["seed"]) == ("ds-em+network", 1.0, 3)
    assert (run["edges"], run["N"]) == (len({frozenset(e) for e in network.edges.tolist() if len({*e}) == 2}), 600)
    alone = cs.aggregate(network.annotations, "ds-em")
    assert consensus.error_rate(network.truth) < alone.error_rate(network.truth) - 5
    consensus.save(tmp_path / "run")
    np.testing.assert_array_equal(cs.load(tmp_path / "run").posterior, consensus.posterior)
    assert consensus.diagnosis is not None


def test_aggregate_reads_files_and_warns(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("task,worker,label\n" + "".join(f"t{n},a,{n % 2}\n" for n in range(6)))
    (tmp_path / "edges.csv").write_text("source,target\nt0,t2\nt1,t3\n")
    with pytest.warns(FewLabelsWarning, match="only one annotator"):
        consensus = aggregate_network(tmp_path / "labels.csv", tmp_path / "edges.csv")
    assert consensus.run["edges"] == 2
    assert any("only one annotator" in sentence for sentence in consensus.warnings)


def test_a_delta_for_each_item_is_saved(network: NetworkSimulation, tmp_path: Path) -> None:
    consensus = aggregate_network(network.annotations, network.edges, delta=network.annotations.labels_per_item / 4)
    consensus.save(tmp_path / "run")
    assert cs.load(tmp_path / "run").run["parameters"]["delta"] == [0.75] * 600


def test_neighbours_label_what_nobody_did() -> None:
    said = ["c", "c", "c", None, None, "d", "d"]
    rows = [(f"p{n}", m, label) for n, label in enumerate(said) for m in "xyz"]
    with pytest.warns(cs.exceptions.DataWarning, match="have no label"):
        annotations = cs.Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    with pytest.warns(FewLabelsWarning, match="judged by their neighbours or features alone"):
        run = cs.aggregate(annotations, graph=[("p0", "p1"), ("p1", "p2"), ("p2", "p3")], delta=2.0)
    labels = run.labels["label"]
    assert labels[:4].tolist() == ["c"] * 4
    assert 0 < run.labels["confidence"][3] <= 1
    assert pd.isna(labels[4])  # nobody labelled it, and nobody stands beside it


def test_where_errors_go_together_the_probabilities_are_more_modest() -> None:
    # two labels of an item are one opinion: the second annotator of each pair copies the first
    network = simulate_network(1500, 6, 3, agreement=0.7, labels_per_item=6, accuracy=(0.45, 0.6), seed=3)
    said = network.annotations.label.reshape(1500, 6).copy()
    said[:, 1::2] = np.where(np.random.default_rng(0).random((1500, 3)) < 0.8, said[:, ::2], said[:, 1::2])
    copied = cs.Annotations.from_matrix(said.astype(int))
    careful = network_em(copied, network.edges)
    bold = network_em(copied, network.edges, correlation=0.0)
    assert careful.details["correlation"] > 0.05
    truth = np.asarray(network.truth)
    errors = [cs.metrics.expected_calibration_error(fit.posterior, truth) for fit in (careful, bold)]
    assert errors[0] < errors[1]
    joined = careful.posterior.max(axis=1).mean()
    assert joined < bold.posterior.max(axis=1).mean() - 0.02


def test_silence_can_be_a_label(network: NetworkSimulation) -> None:
    frame = network.annotations.to_frame("pandas")
    spoken = frame[frame["label"] != 0]
    found = cs.aggregate(spoken, graph=network.edges, silence=0, items=network.annotations.items, delta=1.0)
    listed = filled(Annotations.from_frame(spoken, items=network.annotations.items), 0)
    np.testing.assert_array_equal(found.posterior, cs.aggregate(listed, graph=network.edges, delta=1.0).posterior)
    assert found.run["silence"] == 0
    assert found.run["given_labels"] == len(spoken)
    with pytest.raises(ParameterError, match="on a graph"):
        cs.aggregate(spoken, graph=network.edges, silence="informative")
