"""CoNLL columns: what the text says is what is read, and any other text is a sentence that names the line."""

from __future__ import annotations

import contextlib
import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ConsilienceError, DataError, DataWarning, FormatError
from consilience.io import conll
from consilience.io.sequences import read_sequences

SAMPLE = "EU B-ORG O ?\nrejects O O ?\nGerman B-MISC B-MISC ?\n\nPeter ? B-PER B-PER\nBlackburn ? I-PER I-PER\n"

#: One sequence for each list, one row for each token: the word and the label of each annotator, or None.
Rows = list[list[tuple[str, list[str | None]]]]

SAMPLE_ROWS: Rows = [
    [("EU", ["B-ORG", "O", None]), ("rejects", ["O", "O", None]), ("German", ["B-MISC", "B-MISC", None])],
    [("Peter", [None, "B-PER", "B-PER"]), ("Blackburn", [None, "I-PER", "I-PER"])],
]


def put(folder: Path, content: str | bytes, name: str = "labels.conll") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(data: SequenceAnnotations) -> Rows:
    """What was read, token by token through the plain accessors."""
    assert data.words is not None
    a = data.tokens
    rows: Rows = []
    for s in range(data.n_sequences):
        rows.append([])
        for n in range(data.indptr[s], data.indptr[s + 1]):
            said: list[str | None] = [None] * a.n_annotators
            for i in range(a.indptr[n], a.indptr[n + 1]):
                said[a.annotator[i]] = str(a.classes[a.label[i]])
            rows[-1].append((data.words[n].as_py(), said))
    return rows


# ---- what is read -------------------------------------------------------------------------------------------


def test_the_sample(tmp_path: Path) -> None:
    data = read_sequences(put(tmp_path, SAMPLE))
    assert rows_of(data) == SAMPLE_ROWS
    assert data.tokens.annotators.tolist() == [1, 2, 3]
    assert data.sequences.tolist() == [0, 1]
    assert data.lengths.tolist() == [3, 2]
    columns = data.token_columns()
    assert columns["position"].to_pylist() == [0, 1, 2, 0, 1]
    assert columns["word"].to_pylist() == ["EU", "rejects", "German", "Peter", "Blackburn"]
    assert data.tokens.classes.tolist() == ["B-MISC", "B-ORG", "B-PER", "I-PER", "O"]
    assert data.tokens.origin.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        SAMPLE.rstrip("\n"),
        SAMPLE.replace("\n", "\r\n"),
        SAMPLE.replace("\n", "\r"),
        SAMPLE.replace("\n\n", "\n\n \t\n\n"),
        "\n\n" + SAMPLE + "\n\n",
        SAMPLE.replace(" ", "\t"),
        SAMPLE.replace(" ", "   "),
        SAMPLE.replace(" ", " \t "),
        SAMPLE.replace("EU ", "EU\t").replace("Peter ", "Peter\t"),
        re.sub(r"^(\w+) ", r"\1\t", SAMPLE, flags=re.MULTILINE),
        "\ufeff" + SAMPLE,
        "-DOCSTART- -X- O O\n\n" + SAMPLE,
        SAMPLE.replace("\n\n", "\n-DOCSTART-\n"),
        "# sent_id = 1\n# text = EU rejects German\n" + SAMPLE.replace("\n\n", "\n\n# sent_id = 2\n"),
        SAMPLE.replace(" ", "\t").replace("\t?", "\t"),
    ],
    ids=lambda text: repr(text[:24]),
)
def test_ways_to_write_the_same(tmp_path: Path, text: str) -> None:
    assert rows_of(read_sequences(put(tmp_path, text))) == SAMPLE_ROWS


def test_zipped_and_in_another_encoding(tmp_path: Path) -> None:
    assert rows_of(read_sequences(put(tmp_path, gzip.compress(SAMPLE.encode()), "labels.bio.gz"))) == SAMPLE_ROWS
    text = SAMPLE.replace("Peter", "Péter")
    data = read_sequences(put(tmp_path, text.encode("latin-1")), encoding="latin-1")
    assert data.words is not None
    assert data.words[3].as_py() == "Péter"


def test_words_may_contain_spaces_between_tabs_and_odd_spaces_anywhere(tmp_path: Path) -> None:
    data = read_sequences(put(tmp_path, "New York\tB-LOC\tO\n10\u00a0000\tO\tO\n"))
    assert rows_of(data) == [[("New York", ["B-LOC", "O"]), ("10\u00a0000", ["O", "O"])]]
    data = read_sequences(put(tmp_path, "10\u00a0000 O O\n\u2028 O B-X\n"))
    assert rows_of(data) == [[("10\u00a0000", ["O", "O"]), ("\u2028", ["O", "B-X"])]]


def test_a_hash_is_a_word_where_its_line_has_labels(tmp_path: Path) -> None:
    text = "# a comment of no labels\n# O O\n# O ?\ntag B-X O\n\n# B-X O\n# comment O\n# O O\n"
    # "# comment O" has the right number of columns, but follows a token: it is one
    rows = rows_of(read_sequences(put(tmp_path, text)))
    assert [[word for word, _ in row] for row in rows] == [["#", "#", "tag"], ["#", "#", "#"]]
    assert rows[1][1] == ("#", ["comment", "O"])
    rows = rows_of(read_sequences(put(tmp_path, "a O O\n\n# new sequence\nb O O\n")))
    assert [[word for word, _ in row] for row in rows] == [["a"], ["b"]]


def test_tokens_and_annotators_without_labels_stay(tmp_path: Path) -> None:
    data = read_sequences(put(tmp_path, "a ? ?\nb O ?\n\nc ? ?\n"))
    assert data.lengths.tolist() == [2, 1]
    assert data.tokens.labels_per_item.tolist() == [0, 1, 0]
    assert data.tokens.labels_per_annotator.tolist() == [1, 0]


def test_labels_that_are_numbers(tmp_path: Path) -> None:
    data = read_sequences(put(tmp_path, "a 1 0\nb 0 ?\n"), classes=[1, 0])
    assert data.tokens.classes.tolist() == [1, 0]


# ---- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "a O O\n\n# c\nb O\n",
            FormatError,
            r"labels.conll, line 4: 2 columns where line 1 has 3; expected a word and 2",
        ),
        ("\na O O\nb O O O\n", FormatError, r"labels.conll, line 3: 4 columns where line 2 has 3"),
        ("a\tO\tO\nb\tO\tO\tO\n", FormatError, r"labels.conll, line 2: 4 columns where line 1 has 3"),
        ("a\nb\n", FormatError, r"labels.conll, line 1: one column; expected a word and then a column of labels"),
        ("", FormatError, r"labels.conll is empty"),
        ("\n \n# x\n-DOCSTART- O\n", DataError, r"labels.conll has no tokens"),
        ("a ? ?\nb ? ?\n", DataError, r"labels.conll has no label: all its 2 tokens have '\?' from all 2 annotators"),
        (b"a O\nb\xff O\n", FormatError, r"labels.conll, line 2: byte 2 is not utf-8; say how the file is encoded"),
    ],
)
def test_bad_files(tmp_path: Path, text: str | bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_sequences(put(tmp_path, text))


def test_damaged_zip(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"cannot read labels.conll.gz"):
        read_sequences(put(tmp_path, gzip.compress(SAMPLE.encode())[:30], "labels.conll.gz"))


# ---- telling it from a table --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        SAMPLE,
        SAMPLE.replace(" ", "\t"),
        "a 1 0\nb 0 0\n\nc 1 1\n",  # blocks, and labels that come again
        "a B-X O\n, O O\n",  # one sequence, BIO tags
        "-DOCSTART- O O\n\na B-X O\n",
    ],
)
def test_looks_like_conll(text: str) -> None:
    assert conll.looks_like(text)


@pytest.mark.parametrize(
    "text",
    [
        "sequence,position,worker,label\n0,0,a,O\n\n0,1,a,O\n",
        "sequence, position, worker, label\n\n0, 0, a, O\n\n0, 1, a, O\n",
        "sequence\tposition\tworker\tlabel\n0\t0\ta\tO\n\n0\t1\ta\tO\n",
        "who what\n\na b\n",
        "s1, 0, ann, O\n\ns1, 1, ann, O\n",
        "one column\nthen three of them\n",
        "word\n",
        "",
    ],
)
def test_does_not_look_like_conll(text: str) -> None:
    assert not conll.looks_like(text)


# ---- any text -----------------------------------------------------------------------------------------------

PIECES = [
    "a",
    "O",
    "?",
    "B-X",
    "#",
    "# ",
    "-DOCSTART-",
    " ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\u00a0",
    "\u2028",
    "\x00",
    ",",
]
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_any_text_is_read_or_refused(text: str) -> None:
    conll.looks_like(text)
    try:
        columns = conll.parse(text.encode(), "x")
    except ConsilienceError as error:
        assert str(error).startswith("x")  # noqa: PT017 - either outcome is right
        return
    assert columns.lengths.sum() == len(columns.words)
    assert (columns.lengths > 0).all()
    assert columns.label.size == len(columns.words) * columns.n_annotators
    assert columns.label.max(initial=-1) < len(columns.labels)


@settings(max_examples=100, deadline=None)
@given(content=st.one_of(st.binary(max_size=60), TEXTS.map(lambda text: text.encode("utf-16"))))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = put(tmp_path_factory.getbasetemp(), content, "any.conll")
    for encoding in ("utf-8", "utf-16", "utf-7"):
        with contextlib.suppress(ConsilienceError, DataWarning):
            assert read_sequences(path, encoding=encoding).n_tokens > 0


WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n\v\f\r"), min_size=1, max_size=5)
LABELS = st.one_of(st.none(), st.sampled_from(["O", "B-X", "I-X", "é"]))


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    M = draw(st.integers(1, 4))
    token = st.tuples(
        WORDS.filter(lambda word: not word.startswith(("#", "-DOCSTART-", "\ufeff"))),
        st.lists(LABELS, min_size=M, max_size=M),
    )
    return draw(st.lists(st.lists(token, min_size=1, max_size=5), min_size=1, max_size=4))


@settings(max_examples=200, deadline=None)
@given(wanted=rows(), separator=st.sampled_from([" ", "\t", "  "]), end=st.sampled_from(["\n", "\r\n"]))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, wanted: Rows, separator: str, end: str) -> None:
    text = (end + end).join(
        end.join(separator.join([word, *(label or "?" for label in said)]) for word, said in sequence)
        for sequence in wanted
    )
    path = put(tmp_path_factory.getbasetemp(), text, "round.conll")
    if all(label is None for sequence in wanted for _, said in sequence for label in said):
        with pytest.raises(DataError, match="has no label"):
            read_sequences(path)
    else:
        assert rows_of(read_sequences(path)) == wanted


def test_many_tokens_agree_with_a_plain_loop(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tags = np.array(["O", "B-PER", "I-PER", "?"])[rng.integers(0, 4, (20_000, 6))]
    breaks = rng.random(20_000) < 0.05
    lines = [f"w{n} {' '.join(row)}" + "\n" * int(end) for n, (row, end) in enumerate(zip(tags, breaks, strict=True))]
    data = read_sequences(put(tmp_path, "\n".join(lines)))
    wanted: Rows = [[]]
    for n, (row, end) in enumerate(zip(tags.tolist(), breaks, strict=True)):
        wanted[-1].append((f"w{n}", [None if tag == "?" else tag for tag in row]))
        if end:
            wanted.append([])
    assert rows_of(data) == [sequence for sequence in wanted if sequence]
