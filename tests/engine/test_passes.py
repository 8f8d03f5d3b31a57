"""One answer on every engine: passes in memory, streamed, and cut among any number of processes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kernels import em_numpy

import consilience as cs
from consilience.engine import place, progress
from consilience.engine.part import Part, join
from consilience.engine.passes import InMemory, OnDisk, Passes
from consilience.engine.store_writer import write_store
from consilience.exceptions import MethodError, ParameterError
from consilience.fitting.em import ConfusionStep
from consilience.fitting.fit import vote_start
from consilience.kernels import blocks
from consilience.methods.base import registry
from consilience.moments import pair_moments, triple_moments
from consilience.moments.label_pairs import items_by_content

METHODS = ["majority", "ds-em", "one-coin", "class-one-coin", "rob-symnmf", "des-symnmf+em", "rob-symnmf+em"]
METHODS += ["tensor-admm"]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a few ten thousand labels into sixteen blocks."""
    monkeypatch.setattr(blocks, "_LABELS_PER_BLOCK", 1 << 10)


def a_crowd(K: int, n_items: int = 4000, gold: bool = False) -> cs.Annotations:
    crowd = cs.simulate(n_items, 8 if K > 16 else 30, K, labels_per_item=8, seed=K)
    known = np.where(np.arange(n_items) % 7 == 0, crowd.truth, -1)
    return crowd.annotations.with_gold(known) if gold else crowd.annotations


def fit_with(method: str, passes: Passes) -> Any:
    seeded: dict[str, Any] = {"random_state": 3} if "random_state" in registry.resolve(method)[0].parameters else {}
    return registry.fit(method, passes, **seeded)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 37])
def test_a_sum_along_the_tree_does_not_depend_on_who_has_which_blocks(n: int) -> None:
    rng = np.random.default_rng(n)
    values = [(rng.normal(size=3) * 10.0 ** rng.integers(-8, 8), float(rng.normal())) for _ in range(n)]

    class Sums(tuple[Any, Any]):
        def __new__(cls, *parts: Any) -> Any:
            return super().__new__(cls, parts)

    def leaf(first: int, _: int) -> Any:
        return Sums(values[first][0].copy(), values[first][1])

    cut = [(i, i + 1) for i in range(n)]
    whole = blocks.total(blocks.fold(leaf, blocks.Share.all_of(cut)), (0, n))
    np.testing.assert_allclose(whole[0], np.sum([v[0] for v in values], axis=0), rtol=1e-12, atol=1e-9)
    for workers in range(1, n + 1):
        edges = [round(i * n / workers) for i in range(workers + 1)]
        parts: dict[blocks.Node, Any] = {}
        for a, b in pairwise(edges):
            share = blocks.Share(cut[a:b], a, n)
            assert sum(stop - first for first, stop in blocks.within(share)) == b - a
            parts |= blocks.fold(leaf, share, threads=1)
        again = blocks.total(parts, (0, n))
        assert again[0].tobytes() == whole[0].tobytes()
        assert again[1] == whole[1]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("K", [2, 4, 17])
def test_passes_over_portions_add_up_to_the_pass_over_all(K: int, gold: bool) -> None:
    a = a_crowd(K, gold=gold)
    whole = InMemory(a)
    n = whole.part.share.n
    assert n > 1
    at = vote_start(a, ConfusionStep(0.1))
    expected = whole.sweep(*at)
    no_gold = whole.sweep(*at, gold=False)
    reference = em_numpy.statistics(
        a.indptr, a.annotator, a.label, np.empty(0, np.int32) if a.gold is None else a.gold, *at
    )
    np.testing.assert_allclose(expected.counts, reference.counts, rtol=1e-9, atol=1e-9)
    assert expected.log_likelihood == pytest.approx(reference.log_likelihood, rel=1e-12)
    for workers in {2, min(3, n), min(5, n)}:
        edges = [round(i * n / workers) for i in range(workers + 1)]
        parts = [Part(**whole.part.portion(i, j)) for i, j in pairwise(edges)]

        def total(parts: list[Part], what: str, *arguments: Any) -> Any:
            made: dict[blocks.Node, Any] = {}
            for part in parts:
                made |= getattr(part, what)(*arguments)
            return blocks.total(made, (0, n))

        for what, one in (("parts", expected), ("parts_without_gold", no_gold)):
            other = total(parts, what, *at)
            assert other.counts.tobytes() == one.counts.tobytes()
            assert other.class_counts.tobytes() == one.class_counts.tobytes()
            assert other.log_likelihood == one.log_likelihood
        assert total(parts, "votes").counts.tobytes() == whole.votes.counts.tobytes()
        surveys = [part.survey() for part in parts]
        survey = surveys[0]
        for one_more in surveys[1:]:
            survey = join(survey, one_more)
        np.testing.assert_array_equal(survey.said, whole.survey.said)
        assert survey.longest == int(a.labels_per_item.max())
        assert survey.known.sum() == (0 if a.gold is None else int((a.gold >= 0).sum()))


def test_a_survey_of_parts_finds_the_groups_that_share_no_item() -> None:
    """Annotators 0-1-2 meet across the two halves only through 1; 3-4 never meet them."""
    matrix = np.full((6, 5), -1)
    matrix[0, [0, 1]] = matrix[3, [1, 2]] = matrix[1, [3, 4]] = matrix[4, [3, 4]] = 0
    matrix[2, 0] = 1
    a = cs.Annotations.from_matrix(matrix)
    whole = InMemory(a).part
    halves = [a.select_items(np.arange(3)), a.select_items(np.arange(3, 6))]
    joined = join(*(Part.of_annotations(half).survey() for half in halves))
    for survey in (whole.survey(), joined):
        assert survey.component[0] == survey.component[1] == survey.component[2]
        assert survey.component[3] == survey.component[4] != survey.component[0]
        assert survey.unlabelled == 1
        assert survey.longest == 2


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("K", [2, 4])
def test_pairs_counted_in_pieces_are_those_counted_at_once(
    K: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = a_crowd(K, 1000)
    expected = pair_moments(a)
    store = write_store(a, tmp_path / "store")
    assert OnDisk(store).pairs() == expected
    monkeypatch.setattr("consilience.kernels.cooccurrence._LARGEST_TABLE", 1)  # keys are sorted
    monkeypatch.setattr("consilience.engine.part._KEYS", 1 << 12)
    part = OnDisk(store).part
    assert len(part._pieces(64, lambda ends: ends)) > 16
    assert OnDisk(store).pairs() == expected


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("method", METHODS)
def test_streamed_fits_are_those_in_memory_bit_for_bit(method: str, tmp_path: Path) -> None:
    a = a_crowd(4, gold=method == "ds-em")
    store = write_store(a, tmp_path / "store")
    here = fit_with(method, InMemory(a))
    for keep in (False, True):
        there = fit_with(method, OnDisk(store, keep=keep))
        assert there.model == here.model
        assert there.log_likelihood == here.log_likelihood
        assert there.history == here.history
        assert there.posterior.shape == (0, 4)


@pytest.mark.usefixtures("small_blocks")
def test_triples_counted_in_pieces_are_those_of_the_annotators_alone(tmp_path: Path) -> None:
    a = a_crowd(4, 1000)
    who = np.array([7, 3, 12, 29, 0])
    found = OnDisk(write_store(a, tmp_path / "store")).triples(who)
    assert list(found.annotators) == [a.annotators[m] for m in who]
    chosen = cs.Annotations.from_frame(a.select_annotators(np.sort(who)).to_frame("pandas"))
    expected = triple_moments(chosen.recode(a.annotator_ids.take(who), a.class_ids))
    assert found == expected
    assert InMemory(a).triples(who) == expected
    with pytest.raises(MethodError, match="too many to count"):
        InMemory(cs.simulate(300, 200, 4, seed=0).annotations).triples(np.arange(200))


@pytest.mark.usefixtures("small_blocks")
def test_few_labels_on_disk_keep_the_votes_as_they_do_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Annotators who are alike: the model gains little over the votes, and a sample of the labels is held out."""
    monkeypatch.setattr("consilience.methods.tensor_admm._TESTED", 500)
    crowd = cs.simulate(300, 10, 2, labels_per_item=5, accuracy=(0.6, 0.7), seed=1)
    a = crowd.annotations.with_gold({n: int(crowd.truth[n]) for n in range(0, 300, 30)})
    asked: list[int] = []

    def counted(sample: cs.Annotations) -> Any:
        asked.append(sample.n_items)
        return items_by_content(sample)

    monkeypatch.setattr("consilience.methods.tensor_admm.items_by_content", counted)
    places = InMemory(a), OnDisk(write_store(a, tmp_path / "store"))
    here, there = (registry.fit("tensor-admm", passes, max_iter=20) for passes in places)
    assert asked == [100, 100]  # every third item
    assert there.model == here.model
    assert any("too few for moments" in sentence for sentence, _ in here.cautions)
    assert there.cautions == here.cautions


def test_fits_do_not_depend_on_the_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    a = a_crowd(4)
    fits = []
    for labels in (1 << 17, 1 << 12, 1 << 9):
        monkeypatch.setattr(blocks, "_LABELS_PER_BLOCK", labels)
        fits.append(registry.fit("ds-em", InMemory(a), tol=1e-12))
        assert InMemory(a).part.share.n == {1 << 17: 1, 1 << 12: 4, 1 << 9: 8}[labels]
    for other in fits[1:]:
        np.testing.assert_allclose(other.model.confusions, fits[0].model.confusions, atol=1e-10)
        assert other.log_likelihood == pytest.approx(fits[0].log_likelihood, rel=1e-13)


# ---- the result of a run ---------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path: Path) -> tuple[Path, cs.Annotations, dict[int, int]]:
    """A folder of files, the same labels in memory, and their truth."""
    import pyarrow.parquet as pq

    crowd = cs.simulate(3000, 20, 3, labels_per_item=5, seed=1)
    table = crowd.annotations.to_frame("pyarrow")
    folder = tmp_path / "labels"
    folder.mkdir()
    for i in range(3):
        pq.write_table(table.slice(i * 5000, 5000), folder / f"{i}.parquet")
    return folder, cs.Annotations.from_frame(table), dict(enumerate(crowd.truth.tolist()))


@pytest.mark.parametrize("method", ["ds-em", "majority"])
def test_a_streamed_run_is_the_run_in_memory(parquet: Any, method: str, tmp_path: Path) -> None:
    folder, labels, truth = parquet
    here = cs.aggregate(labels, method)
    there = cs.aggregate(cs.scan(folder), method)
    assert type(there).__name__ == "StreamedConsensus"
    assert there.model == here.model
    assert there.error_rate(truth) == here.error_rate(truth)
    assert list(there.items_per_class()) == list(here.items_per_class())
    for run, name in ((here, "here"), (there, "there")):
        run.save(tmp_path / name)
    assert "_whole" not in vars(there)  # nothing of this held all items
    for file in ("labels.csv", "model.npz"):
        assert (tmp_path / "there" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()
    one, two = here.annotators, there.annotators
    for column in ("n_labels", "accuracy", "information", "low", "high"):
        np.testing.assert_allclose(np.asarray(two[column]), np.asarray(one[column]), atol=1e-10)
    again = cs.load(tmp_path / "there")
    np.testing.assert_array_equal(again.posterior, here.posterior)
    np.testing.assert_array_equal(there.posterior, here.posterior)
    there.save(tmp_path / "there", labels="parquet")
    assert (tmp_path / "there" / "labels.parquet").exists()


def test_paths_and_annotations_can_be_streamed(parquet: Any) -> None:
    folder, labels, truth = parquet
    expected = cs.aggregate(labels, "ds-em").model
    for data in (folder, str(folder)):
        assert cs.aggregate(data, "ds-em").model == expected
    assert cs.aggregate(labels, "ds-em", engine="stream").model == expected
    gold = {0: truth[0]}
    known = cs.aggregate(folder, "ds-em", gold=gold)
    assert known.run["gold_items"] == 1
    assert known.model == cs.aggregate(labels, "ds-em", gold=gold).model


def test_methods_that_need_all_labels_get_them_if_they_fit(parquet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, labels, _ = parquet
    scanned = cs.scan(folder)
    assert cs.aggregate(scanned, "ibcc").model == cs.aggregate(labels, "ibcc").model
    monkeypatch.setattr("consilience.methods.base.running.fits", lambda _: False)
    with pytest.raises(MethodError, match=r"ibcc needs all labels in memory.*majority,.* ds-em, one-coin,"):
        cs.aggregate(scanned, "ibcc")
    assert cs.aggregate(scanned).model == cs.aggregate(labels).model


def test_what_fits_depends_on_the_memory_allowed(parquet: Any) -> None:
    scanned = cs.scan(parquet[0])
    assert place.fits(scanned)
    scanned.memory = 1
    scanned.store.n_items = 10**9
    assert not place.fits(scanned)


def test_wrong_engines_and_misplaced_truths_are_refused(parquet: Any) -> None:
    folder, labels, _ = parquet
    with pytest.raises(ParameterError, match="no engine 'spark'; this release has 'local', 'stream', 'dask'"):
        cs.aggregate(labels, engine="spark")
    with pytest.raises(ParameterError, match="given to scan"):
        cs.aggregate(cs.scan(folder), "ds-em", gold={0: 1})
    sequences = cs.datasets.simulate_sequences(5, 10, 3, 3, seed=0).annotations
    with pytest.raises(ParameterError, match="sequences cannot be streamed"):
        cs.aggregate(sequences, engine="stream")


# ---- progress -----------------------------------------------------------------------------------------------


def test_long_steps_and_passes_are_told_of(parquet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LONG", 1)
    told: list[progress.Progress] = []
    run = cs.aggregate(cs.scan(parquet[0]), "rob-symnmf+em", callback=told.append)
    run.save(parquet[0].parent / "run")
    steps = {state.step for state in told}
    assert {"votes", "pairs of annotators", "a first look", "writing labels"} <= steps
    for step in steps - {"", "completing pairs"}:  # how long these take is not known beforehand
        last = [state for state in told if state.step == step][-1]
        assert last.iteration == last.max_iter
        assert last.left == 0
    passes = [state for state in told if state.labels == 15000]
    assert len(passes) == run.run["iterations"]


def test_the_passes_that_are_left_are_foretold_from_how_changes_fall() -> None:
    changes = [(n, 0.5**n) for n in range(1, 11)]  # 0.5 ** 20 is 1e-6
    assert progress.passes_left(changes, 0.5**20, 990) == pytest.approx(10)
    assert progress.passes_left(changes, 0.5**20, 4) == 4
    assert np.isnan(progress.passes_left(changes[:2], 1e-6, 100))
    assert progress.passes_left(changes, 0.0, 90) == 90


def test_the_bar_says_how_fast_and_how_long() -> None:
    from consilience.cli._output import Meter

    meter, nan = Meter(), float("nan")
    state = progress.Progress(0, 100, nan, nan, "votes", 100_000, 100)
    assert meter.describe(state, 10.0) == "votes"
    assert meter.describe(state._replace(iteration=40, left=60), 12.0) == "votes, 2M labels/s, 0:03 left"
    first = progress.Progress(1, 1000, -5.0, nan, "", 3000, nan)
    assert meter.describe(first, 12.5) == "pass 1, log-likelihood -5.00"
    later = first._replace(iteration=3, change=1e-4, left=9000)
    assert meter.describe(later, 14.5) == "pass 3, log-likelihood -5.00, change 1e-04, 3k labels/s, 2:30:00 left"
    # a pass over a tenth of the labels: 6300 in three seconds
    few = first._replace(iteration=4, labels=300)
    assert meter.describe(few, 15.5) == "pass 4, log-likelihood -5.00, 2.1k labels/s"


# ---- the command line ---------------------------------------------------------------------------------------


def test_the_command_line_streams_folders(parquet: Any, tmp_path: Path) -> None:
    import json

    from click.testing import CliRunner

    from consilience.cli import cli

    folder, labels, truth = parquet
    (tmp_path / "truth.csv").write_text("task,label\n" + "".join(f"{item},{label}\n" for item, label in truth.items()))
    (tmp_path / "gold.csv").write_text(f"task,label\n0,{truth[0]}\n")
    options = ["--method", "ds-em", "--memory", "1GiB", "--labels-format", "parquet", "--out", str(tmp_path / "run")]
    options += ["--truth", str(tmp_path / "truth.csv"), "--gold", str(tmp_path / "gold.csv"), "--json"]
    options += ["--checkpoint", str(tmp_path / "kept")]
    done = CliRunner().invoke(cli, ["aggregate", str(folder), *options], catch_exceptions=False)
    summary = json.loads(done.stdout)
    here = cs.aggregate(labels, "ds-em", gold={0: truth[0]})
    assert summary["log_likelihood"] == here.run["log_likelihood"]
    assert summary["gold_items"] == 1
    assert summary["error_rate"] == here.error_rate(truth)
    assert {"labels.parquet", "model.npz", "report.html"} <= {file.name for file in (tmp_path / "run").iterdir()}
    assert {"checkpoint.json", "labels", "em.npz", "votes.npz"} == {file.name for file in (tmp_path / "kept").iterdir()}
    again = CliRunner().invoke(cli, ["aggregate", str(folder), *options], catch_exceptions=False)
    assert json.loads(again.stdout)["history"] == summary["history"]
