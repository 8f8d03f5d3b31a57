"""``consilience aggregate`` for tokens in order and for items on a graph."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import Run

import consilience as cs

TOKENS = "sentence,token,worker,label\n" + "".join(
    f"s{s},{n},{m},{tag}\n"
    for s, tags in enumerate((["B-PER", "I-PER", "O"], ["O", "B-LOC"], ["B-PER", "O", "O", "B-LOC"]))
    for n, tag in enumerate(tags)
    for m in "abc"
)
TRUTH = "sentence,token,label\ns0,0,B-PER\ns0,1,I-PER\ns0,2,O\ns1,0,O\ns1,1,B-LOC\n"
ITEMS = "task,worker,label\n" + "".join(
    f"p{n},{m},{label}\n"
    for n, labels in enumerate(["cc", "cd", "dd", "dc"])
    for m, label in zip("xy", labels, strict=True)
)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text(TOKENS)
    (tmp_path / "truth.csv").write_text(TRUTH)
    return tmp_path


def test_a_table_of_tokens(run: Run, tokens: Path) -> None:
    result = run(
        "aggregate", tokens / "labels.csv", "--sequence", "sentence", "--position", "token",
        "--truth", tokens / "truth.csv", "--method", "ds-em+hmm+em", "--out", tokens / "run",
    )  # fmt: skip
    assert result.status == 0
    assert "27 labels of 9 tokens in 3 sequences by 3 annotators, 4 classes" in result.out
    assert "Error against the truth given: 0.00%" in result.out
    assert "f1 100.00%" in result.out
    labels = pd.read_csv(tokens / "run" / "labels.csv")
    assert list(labels.columns[:3]) == ["sentence", "token", "label"]
    assert labels["label"].tolist() == ["B-PER", "I-PER", "O", "O", "B-LOC", "B-PER", "O", "O", "B-LOC"]
    spans = pd.read_csv(tokens / "run" / "spans.csv")
    assert spans[["sentence", "first", "last", "type"]].to_numpy().tolist() == [
        ["s0", 0, 1, "PER"], ["s1", 1, 1, "LOC"], ["s2", 0, 0, "PER"], ["s2", 3, 3, "LOC"],
    ]  # fmt: skip
    assert cs.load(tokens / "run").run["sequences"] == 3


def test_one_of_the_two_columns_is_enough_where_the_other_is_recognised(run: Run, tokens: Path) -> None:
    result = run("aggregate", tokens / "labels.csv", "--position", "token", "--method", "majority+hmm", "--json")
    assert json.loads(result.out)["sequences"] == 3


def test_conll_is_known_by_its_ending_or_by_name(run: Run, tmp_path: Path) -> None:
    text = "Ann B-PER B-PER B-PER\nslept O O O\n\nRome B-LOC B-LOC O\n"
    (tmp_path / "names.conll").write_text(text)
    (tmp_path / "names").write_text(text)
    for arguments in ([tmp_path / "names.conll"], [tmp_path / "names", "--format", "conll"]):
        result = run("aggregate", *arguments, "--method", "majority+hmm")
        assert result.status == 0
        assert "9 labels of 3 tokens in 2 sequences by 3 annotators" in result.out


def test_a_brat_folder(run: Run, tmp_path: Path) -> None:
    for name in ("alice", "bob", "carol"):
        (tmp_path / "brat" / name).mkdir(parents=True)
        (tmp_path / "brat" / name / "d.txt").write_text("EU rejects calls")
        (tmp_path / "brat" / name / "d.ann").write_text("T1\tORG 0 2\tEU\n")
    result = run("aggregate", tmp_path / "brat", "--method", "majority+hmm")
    assert result.status == 0
    assert "9 labels of 3 tokens in 1 sequence by 3 annotators, 2 classes" in result.out


def test_gold_tokens_are_held(run: Run, tokens: Path) -> None:
    (tokens / "gold.csv").write_text("sentence,token,label\ns1,0,B-PER\n")
    result = run(
        "aggregate", tokens / "labels.csv", "--sequence", "sentence", "--gold", tokens / "gold.csv",
        "--method", "ds-em+hmm", "--out", tokens / "run",
    )  # fmt: skip
    assert result.status == 0
    assert pd.read_csv(tokens / "run" / "labels.csv").loc[3, "label"] == "B-PER"


def test_edges_let_neighbours_decide(run: Run, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(ITEMS)
    (tmp_path / "edges.csv").write_text("source,target\np0,p1\np2,p3\n")
    arguments = ["aggregate", tmp_path / "labels.csv", "--edges", tmp_path / "edges.csv", "--delta", "1.5"]
    result = run(*arguments, "--out", tmp_path / "run")
    assert result.status == 0
    assert "8 labels of 4 items with 2 edges by 2 annotators" in result.out
    assert pd.read_csv(tmp_path / "run" / "labels.csv")["label"].tolist() == ["c", "c", "d", "d"]


def test_links_from_files(run: Run, tmp_path: Path) -> None:
    """p1 and p3 have one label each way: what they are linked to decides."""
    (tmp_path / "labels.csv").write_text(ITEMS)
    (tmp_path / "same.csv").write_text("source,target\np0,p1\n")
    (tmp_path / "differ.csv").write_text("source,target\np0,p3\n")
    links = ["--must-link", tmp_path / "same.csv", "--cannot-link", tmp_path / "differ.csv"]
    result = run("aggregate", tmp_path / "labels.csv", *links, "--out", tmp_path / "run")
    assert result.status == 0
    assert pd.read_csv(tmp_path / "run" / "labels.csv")["label"].tolist() == ["c", "c", "d", "d"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sequence", "sentence", "--edges", "e.csv"], "--edges and --item are for items"),
        (["--delta", "1"], "--delta needs --edges"),
        (["--field", "uniform"], "--field needs --edges"),
        (["--inference", "icm"], "--inference needs --edges"),
    ],
)
def test_wrong_usage(run: Run, tokens: Path, arguments: list[str], said: str) -> None:
    result = run("aggregate", tokens / "labels.csv", *arguments)
    assert result.status == 2
    assert said in result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sequence", "nope"], "no column 'nope'"),
        (["--sequence", "sentence", "--method", "ds-em"], "not a method for sequences"),
        (["--sequence", "sentence", "--prior", "uniform"], "has no parameter 'prior'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run: Run, tokens: Path, arguments: list[str], said: str) -> None:
    result = run("aggregate", tokens / "labels.csv", *arguments, "--out", tokens / "run")
    assert result.status in (1, 2)
    assert said in result.err
    assert "Traceback" not in result.err
    assert not (tokens / "run").exists()


def test_silence_of_functions_is_o(run: Run, tmp_path: Path) -> None:
    rows = [("d", n, f, tag) for n, tag in ((3, "B-x"), (4, "I-x"), (8, "B-x")) for f in "fgh"]
    rows += [("e", 1, "f", "B-x"), ("e", 1, "g", "B-x")]
    names = ["sequence", "position", "worker", "label"]
    pd.DataFrame(rows, columns=names).to_csv(tmp_path / "labels.csv", index=False)
    truth = [("d", 3, "B-x"), ("d", 4, "I-x"), ("d", 5, "O"), ("d", 8, "B-x"), ("e", 1, "B-x"), ("e", 7, "B-x")]
    pd.DataFrame(truth, columns=["sequence", "position", "label"]).to_csv(tmp_path / "truth.csv", index=False)
    (tmp_path / "tokens.csv").write_text("doc,token\n" + "".join(f"{d},{n}\n" for d in "def" for n in range(10)))
    options = ("--sequence", "sequence", "--position", "position", "--silence", "O", "--truth", tmp_path / "truth.csv")
    result = run("aggregate", tmp_path / "labels.csv", *options, "--json")
    assert result.status == 0
    summary = json.loads(result.out)
    assert summary["silence"] == "O"
    assert summary["K"] == 3
    assert summary["N"] == 8 + 1  # from position 1 to the last labelled one
    assert summary["spans"]["precision"] == 1.0
    assert summary["spans"]["recall"] == pytest.approx(3 / 4)
    assert summary["error_rate"] == pytest.approx(100 / 6)
    result = run(
        "aggregate", tmp_path / "labels.csv", *options, "--items", tmp_path / "tokens.csv", "--out", tmp_path / "run"
    )
    assert result.status == 0
    labels = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert len(labels) == 30
    assert labels["label"].notna().all()
    assert (labels.query("sequence == 'f'")["label"] == "O").all()


def test_silence_and_items_of_plain_labels(run: Run, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("item,worker,label\n" + "".join(f"{n},{m},1\n" for n in (1, 2) for m in "abc"))
    (tmp_path / "items.csv").write_text("item,text\n1,x\n2,y\n3,z\n")
    result = run(
        "aggregate", tmp_path / "labels.csv", "--silence", "0", "--items", tmp_path / "items.csv",
        "--method", "majority", "--out", tmp_path / "run",
    )  # fmt: skip
    assert result.status == 0
    labels = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert dict(zip(labels["item"], labels["label"], strict=True)) == {1: 1, 2: 1, 3: 0}
    result = run("aggregate", tmp_path / "labels.csv", "--silence", "informativ")
    assert result.status == 2
    assert "did you mean 'informative'?" in result.err
