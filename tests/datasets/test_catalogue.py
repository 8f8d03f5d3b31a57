"""The catalogue describes the files, and loading raises an error when they are not those of the catalogue."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import os
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from click.testing import CliRunner

from consilience import datasets
from consilience.cli.datasets import command
from consilience.datasets import CATALOGUE, Crowd, DatasetInfo, loading
from consilience.datasets.catalogue import CROWD_KINDS, Answers, CrowdName, Kind
from consilience.exceptions import ColumnError, DataError, FormatError, ParameterError

CROWDS = [name for name, about in CATALOGUE.items() if about.kind in CROWD_KINDS]
OTHERS = [name for name in CATALOGUE if name not in CROWDS]


@pytest.fixture
def data() -> Path:
    """The user's folder of data; without it, a test that needs it is skipped."""
    root = os.environ.get("CONSILIENCE_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("CONSILIENCE_DATA does not name a folder: the public data sets are not here")
    return Path(root)


def rows_of(file: Path) -> list[list[str]]:
    """Read a CSV file by another route than the library does."""
    content = file.read_bytes()
    text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
    return list(csv.reader(io.StringIO(text, newline="")))[1:]


def known_of(truth: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether the truth of each item is known: -1 is a class where unknown is None."""
    return np.array([k is not None for k in truth]) if truth.dtype == object else truth != -1


# ---- the table that is always there ---------------------------------------------------------------------


def test_the_table_of_1979_needs_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSILIENCE_DATA", raising=False)
    annotations, truth = datasets.load("dawid_skene")
    assert truth is None
    shape = annotations.n_items, annotations.n_annotators, annotations.n_classes, annotations.n_labels
    assert shape == (45, 5, 4, 315)
    assert annotations.labels_per_annotator.tolist() == [135, 45, 45, 45, 45]
    assert set(annotations.labels_per_item.tolist()) == {7}
    patient_7 = annotations.indptr[annotations.items.tolist().index(7)]
    ratings = annotations.classes[annotations.label[patient_7 : patient_7 + 3]]
    # The one place where public copies of the table differ.
    assert ratings.tolist() == [1, 2, 2]


def test_the_bundled_table_is_the_one_of_the_catalogue(data: Path) -> None:
    bundled = datasets.path("dawid_skene") / datasets.info("dawid_skene").files[0]
    assert bundled.read_bytes() == (data / "dawid_skene" / "labels.csv").read_bytes()


# ---- the catalogue against the folder -------------------------------------------------------------------


def test_every_set_of_the_catalogue_has_a_folder(data: Path) -> None:
    folders = {file.parent.name for file in data.glob("*/PROVENANCE.md")}
    assert set(datasets.names()) <= folders
    assert datasets.unknown() == tuple(sorted(folders - set(datasets.names())))
    if datasets.unknown():  # someone else's data: reported, not a failure
        pytest.skip(f"not in the catalogue: {', '.join(datasets.unknown())}")


def test_a_folder_unknown_to_the_catalogue_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rte", "our_own", "no_data"):
        (tmp_path / name).mkdir()
    for name in ("rte", "our_own"):
        (tmp_path / name / "PROVENANCE.md").touch()
    (tmp_path / "sealed.bin").touch()
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    assert datasets.unknown() == ("our_own",)
    assert "not in the catalogue: our_own" in CliRunner().invoke(command, ["list"]).output
    monkeypatch.delenv("CONSILIENCE_DATA")
    assert datasets.unknown() == ()
    assert "not in the catalogue" not in CliRunner().invoke(command, ["list"]).output


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_agrees_with_the_provenance(name: str, data: Path) -> None:
    about = datasets.info(name)
    stats = json.loads((data / name / "stats.json").read_text())
    whole = {key: value for key, value in stats.items() if type(value) is int and key != "bytes"}
    assert {key: about.counts.get(key) for key in whole} == whole
    provenance = (data / name / "PROVENANCE.md").read_text()
    assert about.commit in provenance
    if about.repository.startswith(("github ", "PyPI ")):
        assert about.repository in provenance
    elif name != "dog52":
        pytest.fail(f"{name} has no source")
    if not about.bundled:
        assert all((data / name / file).is_file() for file in about.files)


@pytest.mark.parametrize("name", CROWDS)
def test_crowds_load_with_their_counts(name: str, data: Path) -> None:
    stats = json.loads((data / name / "stats.json").read_text())
    crowd = datasets.load(name)
    assert isinstance(crowd, Crowd)
    annotations, truth = crowd
    assert annotations.n_items == stats["N"]
    assert annotations.n_annotators == stats["M"]
    assert annotations.n_classes == stats.get("K", datasets.info(name).counts["K"])
    kept = 0 if datasets.info(name).duplicates == "keep" else stats["dup_pairs"]
    assert annotations.n_labels == stats["labels"] - kept
    if stats["truth"]:
        assert truth is not None
        assert truth.shape == (annotations.n_items,)
        assert known_of(truth).sum() == stats["truth_with_labels"]
        # the truth loaded is accepted as gold
        gold = annotations.with_gold(truth).gold
        assert gold is not None
        np.testing.assert_array_equal(gold >= 0, known_of(truth))


@pytest.mark.parametrize("name", [name for name in CROWDS if CATALOGUE[name].counts["truth"]])
def test_crowds_hold_what_the_files_say(name: str, data: Path) -> None:
    about = datasets.info(name)
    crowd = datasets.load(name)
    assert isinstance(crowd, Crowd)
    annotations, truth = crowd
    assert truth is not None
    items, annotators, classes = (
        [str(x) for x in ids] for ids in (annotations.items, annotations.annotators, annotations.classes)
    )
    pairs = zip(annotations.item_of_label(), annotations.annotator, annotations.label, strict=True)
    loaded = {(items[n], annotators[m]): classes[k] for n, m, k in pairs}
    labels, truths = (rows_of(data / name / file) for file in about.files[:2])
    # later rows overwrite earlier ones: the last answer counts
    assert loaded == {(task, worker): label for task, worker, label, *_ in labels}
    known = {items[n]: str(truth[n]) for n in np.flatnonzero(known_of(truth))}
    labelled = set(items)
    assert known == {task: label for task, label in truths if task in labelled}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_give_their_parts(name: str, data: Path) -> None:
    about = datasets.info(name)
    parts = datasets.load(name)
    assert isinstance(parts, dict)
    assert set(parts) == set(about.shapes)
    for file in about.files:
        if not file.endswith(".npz"):
            assert parts[file.split(".")[0]].num_rows == len(rows_of(data / name / file))


def test_images_are_arrays(data: Path) -> None:
    parts = datasets.load("olivetti")
    assert isinstance(parts, dict)
    assert parts["X"].shape == (400, 4096)
    assert np.unique(parts["y"]).size == 40


# ---- the catalogue by itself ----------------------------------------------------------------------------


def test_the_type_checker_knows_every_crowd() -> None:
    assert list(get_args(CrowdName)) == CROWDS


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_is_complete(name: str) -> None:
    about = CATALOGUE[name]
    assert about.name == name
    assert about.description
    assert about.licence
    assert about.files
    # of one set only the short name of a commit is known
    assert about.commit == "" or re.fullmatch(
        "[0-9a-f]{8}" if name == "cifar10h_model" else "[0-9a-f]{40}", about.commit
    )
    assert about.kind in get_args(Kind)
    assert about.answers in get_args(Answers)
    counted = {count for axes in about.shapes.values() for count in axes}
    assert counted <= set(about.counts)
    json.dumps(dataclasses.asdict(about))


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CATALOGUE["rte"] = CATALOGUE["trec"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        CATALOGUE["rte"].licence = "public domain"  # type: ignore[misc]


def test_an_unknown_name_gets_a_suggestion_or_the_list() -> None:
    with pytest.raises(ParameterError, match=r"there is no data set 'bluebrid'; did you mean 'bluebird'\?$"):
        datasets.load("bluebrid")
    for ask in (datasets.info, datasets.path, datasets.load):
        with pytest.raises(ParameterError, match="no data set 'zzzz'") as caught:
            ask("zzzz")
        assert all(name in str(caught.value) for name in CATALOGUE)


# ---- a folder that is not there -------------------------------------------------------------------------


def _says_where_it_comes_from(error: BaseException) -> None:
    about, message = CATALOGUE["rte"], str(error)
    assert not isinstance(error, FormatError)
    for part in (about.repository, about.commit, *about.paths, about.licence, *about.files, "CONSILIENCE_DATA"):
        assert part in message


@pytest.mark.parametrize("value", [None, ""])
def test_variable_not_set(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSILIENCE_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("CONSILIENCE_DATA", value)
    with pytest.raises(DataError, match="not set") as caught:
        datasets.load("rte")
    _says_where_it_comes_from(caught.value)


def test_folder_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    with pytest.raises(DataError, match="no folder") as caught:
        datasets.path("rte")
    _says_where_it_comes_from(caught.value)


def test_file_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    (tmp_path / "rte").mkdir()
    assert datasets.path("rte") == tmp_path / "rte"
    with pytest.raises(DataError, match=r"no file .*labels\.csv") as caught:
        datasets.load("rte")
    _says_where_it_comes_from(caught.value)


# ---- files that are not those of the catalogue ----------------------------------------------------------

LABELS = "task,worker,label\nt1,w1,a\nt1,w2,b\nt2,w1,b\nt2,w1,a\nt3,w2,b\n"
TRUTH = "task,label\nt1,a\nt2,b\nt9,a\n"
TINY = DatasetInfo(
    name="tiny",
    kind="crowd",
    description="Three items, one of them answered twice by the same annotator, and a truth that nobody labelled.",
    repository="github somebody/something",
    commit="",
    paths=("labels.txt",),
    licence="none",
    counts={"N": 3, "M": 2, "K": 2, "labels": 5, "dup_pairs": 1, "truth": 3, "truth_with_labels": 2},
    files=("labels.csv", "truth.csv"),
)
PICTURES = dataclasses.replace(
    TINY,
    kind="matrix",
    counts={"samples": 6, "features": 4},
    files=("data.npz",),
    shapes={"X": ("samples", "features"), "y": ("samples",)},
)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small crowd that the catalogue knows."""
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    monkeypatch.setattr(loading, "CATALOGUE", {"tiny": TINY})
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "labels.csv").write_text(LABELS)
    (folder / "truth.csv").write_text(TRUTH)
    return folder


@pytest.fixture
def pictures(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of a small matrix that the catalogue knows."""
    monkeypatch.setattr(loading, "CATALOGUE", {"tiny": PICTURES})
    np.savez_compressed(tiny / "data.npz", X=np.arange(24.0).reshape(6, 4), y=np.arange(6))
    return tiny / "data.npz"


def load_tiny() -> Crowd:
    crowd = datasets.load("tiny")
    assert isinstance(crowd, Crowd)
    return crowd


def test_known_repeats_and_unlabelled_truths_are_not_warned_about(tiny: Path) -> None:
    # pytest turns the library's warnings into errors
    annotations, truth = load_tiny()
    assert annotations.n_labels == 4
    assert annotations.label.tolist() == [0, 1, 0, 1]
    assert truth is not None
    assert truth.tolist() == ["a", "b", None]


@pytest.mark.parametrize("count", TINY.counts)
def test_every_count_is_checked(count: str, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {**TINY.counts, count: TINY.counts[count] + 1}
    monkeypatch.setattr(loading, "CATALOGUE", {"tiny": dataclasses.replace(TINY, counts=counts)})
    with pytest.raises(FormatError, match="not the file of the catalogue") as caught:
        datasets.load("tiny")
    assert f"it has {TINY.counts[count]} " in str(caught.value)
    assert count in str(caught.value)
    assert f"the catalogue says {counts[count]}" in str(caught.value)


def test_repeats_are_counted_where_they_are_kept(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = dataclasses.replace(TINY, duplicates="keep")
    monkeypatch.setattr(loading, "CATALOGUE", {"tiny": kept})
    assert load_tiny().annotations.n_labels == 5
    monkeypatch.setattr(
        loading, "CATALOGUE", {"tiny": dataclasses.replace(kept, counts={**TINY.counts, "dup_pairs": 2})}
    )
    with pytest.raises(FormatError, match="dup_pairs"):
        datasets.load("tiny")


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("labels.csv", "t3,w2,b\n", "", "it has 4 labels"),
        ("labels.csv", "t3,w2,b\n", "t3,w2,b\nt3,w1,a\n", "it has 6 labels"),
        ("labels.csv", "t3,w2", "t2,w2", r"it has 2 items \(N\)"),
        ("labels.csv", "t3,w2", "t3,w3", r"it has 3 annotators \(M\)"),
        ("labels.csv", "t3,w2,b", "t3,w2,c", r"it has 3 classes \(K\)"),
        ("labels.csv", "t2,w1,a", "t2,w2,a", "it has 0 repeated labels"),
        ("labels.csv", "t3,w2,b", "t3,w2,", "it has 2 repeated labels"),
        ("labels.csv", LABELS, "task,worker,label\n", "it has 0 labels"),
        ("truth.csv", "t9,a\n", "", "it has 2 truths"),
        ("truth.csv", "t9", "t3", "it has 3 truths of labelled items"),
    ],
)
def test_another_file_is_noticed(file: str, old: str, new: str, complaint: str, tiny: Path) -> None:
    changed = (tiny / file).read_text().replace(old, new)
    assert changed != (tiny / file).read_text()
    (tiny / file).write_text(changed)
    with pytest.raises(FormatError, match=complaint) as caught:
        datasets.load("tiny")
    assert str(tiny / file) in str(caught.value)


def test_a_tampered_copy_of_a_public_set_is_noticed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rte").mkdir()
    for file in CATALOGUE["rte"].files:
        (tmp_path / "rte" / file).write_bytes((data / "rte" / file).read_bytes())
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    datasets.load("rte")
    with (tmp_path / "rte" / "labels.csv").open("a") as labels:
        labels.write("0,a stranger,1\n")
    with pytest.raises(FormatError, match="it has 8001 labels, the catalogue says 8000"):
        datasets.load("rte")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_a_truncated_gzip_is_a_format_error(keep: float, tiny: Path) -> None:
    (tiny / "labels.csv").unlink()
    whole = gzip.compress(LABELS.encode())
    (tiny / "labels.csv.gz").write_bytes(whole)
    load_tiny()
    (tiny / "labels.csv.gz").write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(FormatError, match=r"cannot read .*labels\.csv\.gz"):
        datasets.load("tiny")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"this is no gzip",
        gzip.compress(LABELS.encode())[:-6] + b"\0\0\0\0\0\0",
        gzip.compress(b""),
        gzip.compress(b"task,worker,label\nt1,w1\n"),
        gzip.compress(b"task,worker,label\n\xff\xfe,w1,a\n"),
        gzip.compress(b"task,w\xe8rker,label\nt1,w1,a\n"),
        gzip.compress(b"task,task,worker,label\nt1,t1,w1,a\n"),
    ],
    ids=["empty", "no gzip", "wrong checksum", "nothing inside", "ragged", "no text", "header no text", "twice"],
)
def test_a_corrupt_file_is_a_format_error(content: bytes, tiny: Path) -> None:
    (tiny / "labels.csv").unlink()
    (tiny / "labels.csv.gz").write_bytes(content)
    with pytest.raises(FormatError, match=r"labels\.csv\.gz"):
        datasets.load("tiny")


def test_a_missing_column_is_named(tiny: Path) -> None:
    (tiny / "labels.csv").write_text(LABELS.replace("worker", "who"))
    with pytest.raises(ColumnError, match="no column 'worker'"):
        datasets.load("tiny")


def test_arrays_are_checked_like_tables(pictures: Path) -> None:
    parts = datasets.load("tiny")
    assert isinstance(parts, dict)
    assert parts["X"].tolist() == np.arange(24.0).reshape(6, 4).tolist()
    np.savez(pictures, X=np.zeros((6, 5)), y=np.arange(6))
    with pytest.raises(FormatError, match="it has 5 features, the catalogue says 4"):
        datasets.load("tiny")
    np.savez(pictures, X=np.zeros(6), y=np.arange(6))
    with pytest.raises(FormatError, match="it has 0 features"):
        datasets.load("tiny")
    np.savez(pictures, X=np.zeros((6, 4)))
    with pytest.raises(FormatError, match="it has no 'y'"):
        datasets.load("tiny")


def test_a_damaged_archive_is_a_format_error(pictures: Path) -> None:
    whole = pictures.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 0xFF
    for content in (b"", b"no archive", whole[: len(whole) // 2], bytes(flipped)):
        pictures.write_bytes(content)
        with pytest.raises(FormatError, match="cannot read"):
            datasets.load("tiny")


def test_an_archive_cannot_run_code(pictures: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return pytest.fail, ("a pickle was opened",)

    objects = np.empty(6, object)
    objects[:] = Bomb()
    np.savez(pictures, X=objects, y=np.arange(6))
    with pytest.raises(FormatError, match="cannot read"):
        datasets.load("tiny")
