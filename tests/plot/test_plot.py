"""Pictures hold the numbers they claim to show, in every form, and names from data are only text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.conftest import quietly

import consilience as cs
from consilience.datasets import Simulation
from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def simulated() -> Simulation:
    return cs.simulate(300, 12, 3, labels_per_item=4, experts=0.2, spammers=0.2, adversaries=0.1, seed=3)


@pytest.fixture(scope="module")
def run(simulated: Simulation) -> cs.Consensus:
    return quietly(simulated.annotations)


Draw = Callable[..., Any]
DRAWN: dict[str, Callable[[cs.Consensus, Any, Any], Any]] = {
    "confusions": lambda run, truth, where: cs.plot.confusions(run, where),
    "annotator_map": lambda run, truth, where: cs.plot.annotator_map(run, where),
    "reliability": lambda run, truth, where: cs.plot.reliability(run, truth, where),
    "learning_curve": lambda run, truth, where: cs.plot.learning_curve(run, where),
    "blocks": lambda run, truth, where: cs.plot.blocks(run.annotations, where),
}


@pytest.mark.parametrize("name", DRAWN)
def test_files_of_every_kind(name: str, run: cs.Consensus, simulated: Simulation, tmp_path: Path) -> None:
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    # how a file is written does not depend on the picture: one of them in every form will do
    for kind, magic in start.items() if name == "learning_curve" else (("svg", start["svg"]),):
        DRAWN[name](run, simulated.truth, tmp_path / f"picture.{kind}")
        assert (tmp_path / f"picture.{kind}").read_bytes().startswith(magic)
    svg = (tmp_path / "picture.svg").read_bytes()
    DRAWN[name](run, simulated.truth, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == svg
    with pytest.raises(ParameterError, match=re.escape(".png, .svg, .pdf")):
        DRAWN[name](run, simulated.truth, tmp_path / "picture.doc")


def test_every_picture_is_listed() -> None:
    of_others = ["cost_against_error", "label_curves"]  # of audits and features, tested there
    assert sorted([*DRAWN, *of_others]) == sorted(cs.plot.__all__)


def test_without_matplotlib_the_extra_is_named(run: cs.Consensus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consilience.compare.comparison_plot.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=re.escape("pip install 'consilience[plot]'")):
        cs.plot.annotator_map(run)


def test_confusions_are_the_models(run: cs.Consensus) -> None:
    made = cs.plot.confusions(run, annotators=["a3", "a0"])
    shown = [ax for ax in made.axes if ax.images]
    for ax, m in zip(shown, (3, 0), strict=True):
        name = f"a{m}"
        assert ax.get_title() == name
        wanted = run.model.confusions[list(run.model.annotators).index(name)]
        np.testing.assert_array_equal(ax.images[0].get_array(), wanted)
        printed = {tuple(text.get_position()): int(text.get_text()) for text in ax.texts}
        for (k, i), percent in printed.items():
            assert percent == round(100 * wanted[int(i), int(k)])
    # by default, those with most labels; a model alone will do
    most = [ax.get_title() for ax in cs.plot.confusions(run, most=3).axes]
    counts = run.annotators.set_index("annotator")["n_labels"].sort_values(ascending=False, kind="stable")
    assert most == counts.index[:3].tolist()
    assert cs.plot.confusions(run.model, most=5)
    with pytest.raises(ParameterError, match="no annotator 'zz'"):
        cs.plot.confusions(run, annotators=["a0", "zz"])


def test_the_map_has_everybody_at_their_place(run: cs.Consensus) -> None:
    ax = cs.plot.annotator_map(run).axes[0]
    found = np.concatenate(
        [
            group.get_offsets()
            for group in ax.collections
            if hasattr(group, "get_sizes") and len(group.get_offsets()) and group.get_sizes().size
        ]
    )
    wanted = run.annotators[["accuracy", "information"]].to_numpy()
    assert sorted(map(tuple, np.asarray(found).round(9))) == sorted(map(tuple, wanted.round(9)))
    flagged = set(run.annotators[run.annotators["flags"] != ""]["annotator"])
    assert flagged & {text.get_text() for text in ax.texts}


def bins(confidence: Floats, right: Any, n: int) -> dict[int, tuple[float, float]]:
    """Mean confidence and accuracy by bin, the slow way."""
    found: dict[int, list[tuple[float, float]]] = {}
    for c, r in zip(confidence.round(12), right, strict=True):
        found.setdefault(max(int(np.ceil(c * n)) - 1, 0), []).append((c, r))
    return {b: (float(np.mean([c for c, _ in v])), float(np.mean([r for _, r in v]))) for b, v in found.items()}


def test_reliability_is_counted_right(run: cs.Consensus, simulated: Simulation) -> None:
    ax = cs.plot.reliability(run, simulated.truth, bins=10).axes[0]
    best = run.posterior.argmax(axis=1)
    wanted = bins(run.posterior.max(axis=1), best == simulated.truth, 10)
    curve = next(line for line in ax.lines if len(line.get_xdata()) == len(wanted))
    got = dict(zip(np.round(curve.get_xdata(), 9), np.round(curve.get_ydata(), 9), strict=True))
    assert got == {round(c, 9): round(a, 9) for c, a in wanted.values()}
    with pytest.raises(DataError, match="both a truth and a label"):
        cs.plot.reliability(run, np.full(300, -1))


def test_curves_are_histories(run: cs.Consensus, simulated: Simulation) -> None:
    for fitted in (run, run.run["history"], cs.DawidSkeneEM().fit(simulated.annotations)):
        line = cs.plot.learning_curve(fitted).axes[0].lines[0]
        np.testing.assert_allclose(line.get_ydata(), run.run["history"])
        assert list(line.get_xdata()) == list(range(1, len(run.run["history"]) + 1))
    with pytest.raises(DataError, match="no history"):
        cs.plot.learning_curve(quietly(simulated.annotations, "majority"))


def test_pictures_are_drawn_into_axes(run: cs.Consensus, simulated: Simulation) -> None:
    from matplotlib.figure import Figure

    made = Figure()
    one, other, third = made.subplots(1, 3)
    assert cs.plot.learning_curve(run, one) is made
    assert cs.plot.annotator_map(run, other) is made
    assert cs.plot.reliability(run, simulated.truth, third) is made
    assert all(ax.lines or ax.collections for ax in made.axes)
    with pytest.raises(ParameterError, match="a path or axes"):
        cs.plot.learning_curve(run, 3)


def test_blocks_before_and_after() -> None:
    """Two halves that never meet but through two: what is missing is grey, and what is filled in is near the truth."""
    crowd = cs.simulate(6000, 8, 2, label_probability=0.6, experts=0.4, seed=1)
    frame = pd.DataFrame(crowd.annotations.to_frame("pandas"))
    who, half = frame["annotator"].str[1:].astype(int), frame["item"] < 3000
    frame = frame[((who < 3) & half) | ((who >= 5) & ~half) | who.isin([3, 4])]
    annotations = cs.Annotations.from_frame(frame)
    made = cs.plot.blocks(annotations)
    before, after = (ax.images[0].get_array() for ax in made.axes[:2])
    order = np.argsort(-annotations.labels_per_annotator, kind="stable")
    names = [int(str(annotations.annotator_ids[int(m)])[1:]) for m in order]
    model = crowd.model
    apart, errors = [], []
    for x, m in enumerate(names):
        for y, j in enumerate(names):
            block = before[2 * x : 2 * x + 2, 2 * y : 2 * y + 2]
            apart.append(bool(np.ma.getmaskarray(block).all()))
            sets = [set(frame[frame["annotator"] == f"a{k}"]["item"]) for k in (m, j)]
            assert apart[-1] == (m == j or not sets[0] & sets[1])
            # R[m, j] = A_m D A_jᵀ of the model that made the labels
            wanted = model.confusions[m] * model.prior @ model.confusions[j].T
            errors.append(np.abs(after[2 * x : 2 * x + 2, 2 * y : 2 * y + 2] - wanted).max())
            if not apart[-1]:
                assert np.abs(block - wanted).max() < 0.05
    assert sum(apart) == 8 + 2 * 9
    assert max(errors) < 0.05
    with pytest.raises(DataError, match="no two annotators"):
        cs.plot.blocks(pd.DataFrame({"task": [1, 2], "worker": ["a", "b"], "label": ["x", "y"]}))


def test_names_from_data_are_no_formulas(tmp_path: Path) -> None:
    people, classes = ["$x_{", "<b>", "a" * 300], ["$\\frac", "50 %"]
    rows = [(n, who, classes[(n + (who == "<b>" and n % 3 == 0)) % 2]) for n in range(30) for who in people]
    run = quietly(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    for name, draw in DRAWN.items():
        draw(run, dict.fromkeys(range(30), classes[0]), tmp_path / f"{name}.svg")
        assert (tmp_path / f"{name}.svg").stat().st_size > 1000
