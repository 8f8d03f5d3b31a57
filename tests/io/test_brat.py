"""brat folders: spans over text become a tag for each token of each line."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ConsilienceError, DataError, DataWarning, FormatError
from consilience.io import brat
from consilience.io.sequences import read_sequences

TEXT = "EU rejects German call"


def put(folder: Path, files: dict[str, str | bytes], name: str = "labels") -> Path:
    root = folder / name
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def tags(data: SequenceAnnotations, annotator: str) -> dict[str, list[str | None]]:
    """The labels of an annotator, by sequence."""
    a = data.tokens
    m = a.annotators.tolist().index(annotator)
    said: list[str | None] = [None] * data.n_tokens
    for n in range(data.n_tokens):
        for i in range(a.indptr[n], a.indptr[n + 1]):
            if a.annotator[i] == m:
                said[n] = a.classes[a.label[i]]
    return {name: said[data.indptr[s] : data.indptr[s + 1]] for s, name in enumerate(data.sequences)}


def one(folder: Path, text: str, *spans: str) -> dict[str, list[str | None]]:
    """Tags of a single document by a single annotator."""
    root = put(folder, {"a/d.txt": text, "a/d.ann": "".join(f"{span}\n" for span in spans)})
    return tags(read_sequences(root), "a")


# ---- what is read -------------------------------------------------------------------------------------------


def test_two_annotators(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "alice/d1.txt": TEXT,
        "alice/d1.ann": "T1\tORG 0 2\tEU\nT2\tMISC 11 17\tGerman\n",
        "bob/d1.txt": TEXT,
        "bob/d1.ann": "T1\tLOC 0 2\tEU\n",
        ".git/d1.ann": "nonsense",
        "alice/.hidden.ann": "nonsense",
        "annotation.conf": "[entities]\n",
    }
    data = read_sequences(put(tmp_path, files))
    assert tags(data, "alice") == {"d1": ["B-ORG", "O", "B-MISC", "O"]}
    assert tags(data, "bob") == {"d1": ["B-LOC", "O", "O", "O"]}
    assert data.token_columns()["word"].to_pylist() == ["EU", "rejects", "German", "call"]
    assert data.token_columns()["position"].to_pylist() == [0, 1, 2, 3]
    assert data.tokens.annotators.tolist() == ["alice", "bob"]
    assert data.tokens.classes.tolist() == ["B-LOC", "B-MISC", "B-ORG", "O"]


def test_a_sequence_is_a_line_with_tokens(tmp_path: Path) -> None:
    text = "\nAnn left.\n \nBob\r\nstayed_on, too\n"
    assert one(tmp_path, text, "T1\tPER 1 4\tAnn", "T2\tPER 13 16\tBob") == {
        "d:2": ["B-PER", "O", "O"],
        "d:4": ["B-PER"],
        "d:5": ["O", "O", "O"],
    }


def test_offsets_count_characters(tmp_path: Path) -> None:
    text = "Zoë 🙂 naïve 東京 ok"
    assert one(tmp_path, text, "T1\tA 0 3\tZoë", "T2\tB 4 5\t🙂", "T3\tC 12 14\t東京") == {
        "d": ["B-A", "B-B", "O", "B-C", "O"]
    }


def test_a_byte_order_mark_is_a_character_but_no_token(tmp_path: Path) -> None:
    assert one(tmp_path, "\ufeffEU rejects", "T1\tORG 1 3\tEU") == {"d": ["B-ORG", "O"]}


def test_spans_of_several_tokens_and_parts_of_tokens(tmp_path: Path) -> None:
    text = "the New York-based firm"  # the New York - based firm
    assert one(tmp_path, text, "T1\tLOC 4 12\tNew York") == {"d": ["O", "B-LOC", "I-LOC", "O", "O", "O"]}
    assert one(tmp_path, text, "T1\tLOC 5 10\tew Yo") == {"d": ["O", "B-LOC", "I-LOC", "O", "O", "O"]}
    assert one(tmp_path, text, "T1\tLOC 7 14") == {"d": ["O", "O", "B-LOC", "I-LOC", "I-LOC", "O"]}


def test_neighbours_of_one_type_stay_two(tmp_path: Path) -> None:
    assert one(tmp_path, "Ann Bob", "T1\tPER 4 7\tBob", "T2\tPER 0 3\tAnn") == {"d": ["B-PER", "B-PER"]}


def test_fragments_begin_anew_after_a_gap(tmp_path: Path) -> None:
    text = "North and South Korea"
    assert one(tmp_path, text, "T1\tLOC 0 5;16 21\tNorth Korea") == {"d": ["B-LOC", "O", "O", "B-LOC"]}
    # no token lies between these two: the second continues the first
    assert one(tmp_path, text, "T1\tLOC 10 15;16 21\tSouth Korea") == {"d": ["O", "O", "B-LOC", "I-LOC"]}
    assert one(tmp_path, "a\nb c", "T1\tX 0 5\ta b c") == {"d:1": ["B-X"], "d:2": ["B-X", "I-X"]}


def test_of_overlapping_spans_the_longer_is_kept(tmp_path: Path) -> None:
    text = "Bank of England said"
    with pytest.warns(DataWarning, match="labels: spans that overlap a longer one .* left out: 2"):
        said = one(tmp_path, text, "T1\tLOC 8 15\tEngland", "T2\tORG 0 15\tBank of England", "T3\tX 0 4\tBank")
    assert said == {"d": ["B-ORG", "I-ORG", "I-ORG", "O"]}
    with pytest.warns(DataWarning, match="left out: 1"):
        data = read_sequences(
            put(tmp_path, {"a/d.txt": text, "a/d.ann": "T1\tB 0 7\tBank of\nT2\tA 5 15\tof England\n"})
        )
    assert tags(data, "a") == {"d": ["B-B", "I-B", "O", "O"]}  # as long: the first in the text
    assert any("overlap" in note for note in data.tokens.origin.notes)


def test_the_same_span_twice_is_one(tmp_path: Path) -> None:
    assert one(tmp_path, TEXT, "T1\tORG 0 2\tEU", "T2\tORG 0 2\tEU") == {"d": ["B-ORG", "O", "O", "O"]}


def test_spans_without_a_token_and_misquoted_ones_are_counted_in_a_warning(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match="cover no token and were left out: 2"):
        assert one(tmp_path, TEXT, "T1\tORG 2 3", "T2\tORG 4 4") == {"d": ["O", "O", "O", "O"]}
    with pytest.warns(DataWarning, match=r"quote another text .*: 1, the first in labels/a/d.ann, line 2; are the off"):
        one(tmp_path, TEXT, "T1\tORG 0 2\tEU", "T2\tMISC 12 17\tGerman")


def test_other_annotations_are_passed_over(tmp_path: Path) -> None:
    others = ["R1\tOrg Arg1:T1 Arg2:T2", "E1\tEv:T1", "A1\tNeg T1", "M1\tNeg T1", "N1\tRef T1 W:1\tx", "#1\tNote T1\tx"]
    assert one(tmp_path, TEXT, *others, "*\tEquiv T1 T2", "", "T1\tORG 0 2\tEU\r") == {"d": ["B-ORG", "O", "O", "O"]}


def test_who_has_no_file_did_not_label_and_text_may_lie_anywhere(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "texts/d1.txt": "one two",
        "texts/unused.txt": "nobody labelled this",
        "d2.txt": "three",
        "alice/d1.ann": "T1\tN 0 3\tone\n",
        "alice/d3.txt": "four",
        "bob/d2.ann": "",
        "bob/d3.ann": "T1\tN 0 4\tfour\n",
    }
    data = read_sequences(put(tmp_path, files))
    assert data.tokens.annotators.tolist() == ["alice", "bob"]
    assert tags(data, "alice") == {"d1": ["B-N", "O"], "d2": [None], "d3": [None]}
    assert tags(data, "bob") == {"d1": [None, None], "d2": ["O"], "d3": ["B-N"]}


def test_documents_in_folders_of_an_annotator(tmp_path: Path) -> None:
    data = read_sequences(put(tmp_path, {"a/x/d.txt": "one", "a/x/d.ann": "", "b/x/d.ann": "T1\tN 0 3\tone\n"}))
    assert tags(data, "b") == {"x/d": ["B-N"]}


def test_a_folder_of_one_annotator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = put(tmp_path, {"d.txt": TEXT, "d.ann": "T1\tORG 0 2\tEU\n"}, "alice")
    assert tags(read_sequences(root), "alice") == {"d": ["B-ORG", "O", "O", "O"]}
    monkeypatch.chdir(root)
    assert read_sequences(".").tokens.annotators.tolist() == ["alice"]


# ---- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        (
            {"a/d.txt": "EU said", "a/d.ann": "", "b/d.txt": "EU says", "b/d.ann": ""},
            FormatError,
            "labels/a/d.txt and labels/b/d.txt differ from character 5 on ('id' and 'ys')",
        ),
        ({"a/d.txt": "EU", "a/d.ann": "", "b/d.txt": "EU\n"}, FormatError, "differ from character 2 on"),
        (
            {"a/d.ann": ""},
            FormatError,
            "labels/a/d.ann has no text; expected d.txt beside it or in the folder of another annotator",
        ),
        (
            {"a/d.txt": TEXT, "a/d.ann": "T1\tORG 0 2\tEU\nT2 MISC 11 17\n"},
            FormatError,
            "labels/a/d.ann, line 2: expected T1<TAB>TYPE START END<TAB>TEXT",
        ),
        ({"a/d.txt": TEXT, "a/d.ann": "Nonsense\n"}, FormatError, "labels/a/d.ann, line 1: expected T1<TAB>"),
        (
            {"a/d.txt": TEXT, "a/d.ann": "T1\tORG 0 23\tEU\n"},
            FormatError,
            "labels/a/d.ann, line 1: span 0 23 does not lie in the text, which has 22 characters",
        ),
        ({"a/d.txt": TEXT, "a/d.ann": "T1\tORG 2 0\tEU\n"}, FormatError, "span 2 0 does not lie in the text"),
        ({"a/d.txt": " \n", "a/d.ann": ""}, DataError, "labels has no tokens: the texts of its 1 documents are blank"),
        ({"a/d.txt": b"a\n\xff", "a/d.ann": ""}, FormatError, "labels/a/d.txt, line 2: byte 1 is not utf-8"),
        ({"a/d.txt": "a", "a/d.ann": b"\xff"}, FormatError, "labels/a/d.ann, line 1: byte 1 is not utf-8"),
        (
            {"d.txt": "a", "d.ann": "", "b/d.ann": ""},
            FormatError,
            "labels holds both labels/d.ann and labels/b/d.ann; expected .ann files of one annotator",
        ),
        ({"a/d.txt": "a"}, FormatError, "labels is a folder without .ann files (brat) and without .parquet files"),
        (
            {"a/d.txt": "a\nb", "a/d.ann": "", "a/d:2.txt": "c", "a/d:2.ann": ""},
            FormatError,
            "labels: 'd:2' would name two sequences",
        ),
    ],
)
def test_bad_folders(tmp_path: Path, files: dict[str, str | bytes], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        read_sequences(put(tmp_path, files))


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path, {"d.txt": TEXT, "d.ann": "", "e.ann": ""}, "elsewhere")
    root = put(tmp_path, {"a/d.txt": TEXT, "a/d.ann": ""})
    (root / "b").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(FormatError, match=r"labels/b is a link, which is not followed"):
        read_sequences(root)
    (root / "b").unlink()
    (root / "a" / "e.ann").symlink_to(tmp_path / "elsewhere" / "e.ann")
    with pytest.raises(FormatError, match=r"labels/a/e.ann is a link out of the folder"):
        read_sequences(root)
    (root / "a" / "e.ann").unlink()
    (root / "a" / "e.ann").symlink_to("e.ann")
    with pytest.raises(FormatError, match=r"labels/a/e.ann is a link that leads nowhere"):
        read_sequences(root)
    (root / "a" / "e.ann").unlink()
    (root / "b").mkdir()
    (root / "b" / "d.ann").symlink_to(Path("..", "a", "d.ann"))
    (root / "b" / "pipe.txt").parent.mkdir(exist_ok=True)
    os.mkfifo(root / "b" / "pipe.ann")  # would wait for ever
    assert read_sequences(root).tokens.annotators.tolist() == ["a", "b"]


# ---- any text -----------------------------------------------------------------------------------------------

PIECES = [
    "T1",
    "\t",
    " ",
    "\n",
    "ORG",
    "0",
    "2",
    "5",
    ";",
    "0 2",
    "T2\tX 0 1\ta\n",
    "R1\t",
    "#",
    "\r",
    "\u0662",
    "9" * 30,
]
SPANS = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=12), content=st.one_of(SPANS, st.text(max_size=20)))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str, content: str) -> None:
    root = put(tmp_path_factory.getbasetemp(), {"a/d.txt": text, "a/d.ann": content}, "any")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        try:
            data = read_sequences(root)
        except ConsilienceError:
            return
    assert data.tokens.n_labels == data.n_tokens > 0


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[list[str]], list[tuple[int, int, str]]]:
    """Lines of words, and spans of tokens that do not overlap."""
    lines = draw(
        st.lists(st.lists(st.sampled_from(["a", "bé", "🙂", "_1"]), min_size=1, max_size=5), min_size=1, max_size=4)
    )
    spans, at = [], 0
    for line in lines:
        begin = 0
        while begin < len(line):
            length = draw(st.integers(0, len(line) - begin))
            if length:
                spans.append((at + begin, at + begin + length, draw(st.sampled_from(["X", "Y"]))))
            begin += max(length, 1)
        at += len(line)
    return lines, draw(st.permutations(spans))


@settings(max_examples=150, deadline=None)
@given(document=documents())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, document: tuple[list[list[str]], list[tuple[int, int, str]]]
) -> None:
    lines, spans = document
    words = [word for line in lines for word in line]
    text = "\n".join(" ".join(line) for line in lines)
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    wanted = ["O"] * len(words)
    content = ""
    for i, (a, b, kind) in enumerate(spans):
        wanted[a:b] = [f"B-{kind}", *[f"I-{kind}"] * (b - a - 1)]
        begin, end = starts[a], starts[b - 1] + len(words[b - 1])
        content += f"T{i}\t{kind} {begin} {end}\t{text[begin:end]}\n"
    data = read_sequences(put(tmp_path_factory.getbasetemp(), {"a/d.txt": text, "a/d.ann": content}, "round"))
    assert [tag for line in tags(data, "a").values() for tag in line] == wanted
    assert data.lengths.tolist() == [len(line) for line in lines]


def test_tokens_are_words_and_single_signs() -> None:
    document = brat.tokenise("d", "don't — U.S. x_1 3,5%")
    assert document.words() == ["don", "'", "t", "—", "U", ".", "S", ".", "x_1", "3", ",", "5", "%"]
    assert all(
        document.text[a:b] == word for a, b, word in zip(document.start, document.end, document.words(), strict=True)
    )
