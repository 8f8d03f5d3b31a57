"""Labels of tokens in order: words of a sentence, frames of a video, minutes of a night.

A token is an item of :class:`consilience.Annotations`; the tokens of sequence s are the items ``indptr[s]`` up to
``indptr[s + 1]``, in ascending order of their position.

============= ============================================== ===================
name          meaning                                        shape, type
============= ============================================== ===================
``tokens``    labels of every token                          Annotations
``indptr``    where the tokens of each sequence begin        (S + 1,) int64
``position``  place of each token, as a code                 (N,) int32
``words``     the word of each token, if the source has it   (N,) strings or None
============= ============================================== ===================

Positions only define the order: consecutive tokens of a sequence are neighbours, whatever their positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Duplicates, Origin, entries_of, min_median_max
from consilience.data.building import RowOptions, columns_of_frame
from consilience.data.ids import Ids, encode, encode_all, joined, name_rows, numbers_where_all_are, to_column
from consilience.data.truth import arrow_or_values, classes_with_truths, truth_codes
from consilience.exceptions import DataError, DataWarning, IdError, warn
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.votes import vote_shares

__all__ = ["SequenceAnnotations"]

#: With silence as an answer: the most tokens for each labelled one (or for a thousand, if there are fewer).
_MOST_GAPS = 10_000


@final
@dataclass(frozen=True, eq=False, repr=False)
class SequenceAnnotations:
    """Labels of tokens in order, immutable and integer-coded.

    Make one with :func:`consilience.read_sequences` or :meth:`from_frame`.
    """

    tokens: Annotations
    indptr: Ints
    sequence_ids: Ids
    position: Codes
    position_ids: Ids  #: in ascending order
    words: pa.Array | None = None
    sequence_column: str = "sequence"
    position_column: str = "position"
    silence: int | None = None  #: code of the class that silence stands for, if it is an answer

    def __post_init__(self) -> None:
        S, N = len(self.sequence_ids), self.tokens.n_items
        indptr = self.indptr
        if indptr.shape != (S + 1,) or indptr[0] != 0 or indptr[-1] != N or (np.diff(indptr) < 0).any():
            raise DataError("tokens, indptr and sequences have sizes that do not match")
        if self.position.shape != (N,):
            raise DataError("tokens and positions have sizes that do not match")
        for name, kind in (("indptr", np.int64), ("position", np.int32)):
            array = np.ascontiguousarray(getattr(self, name), kind).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    # ---- making one -------------------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        sequence: str | None = None,
        position: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        classes: Sequence[Any] | None = None,
        duplicates: Duplicates = "last",
        gold: Any = None,
    ) -> SequenceAnnotations:
        """Build from a long frame: one row for each label of a token.

        Parameters
        ----------
        frame
            A pandas, polars or pyarrow frame (anything that narwhals reads).
        sequence, position, annotator, label
            Names of the columns, unless they have their usual names.
        classes, duplicates
            As for :meth:`consilience.Annotations.from_frame`.
        gold
            Known truths; see :meth:`with_gold`.
        """
        columns, names = columns_of_frame(frame, sequence=sequence, position=position, annotator=annotator, label=label)
        made = cls.from_columns(
            **columns,
            classes=classes,
            duplicates=duplicates,
            origin=Origin("token", names["annotator"], names["label"], _frames.kind_of(frame)),
            sequence_column=names["sequence"],
            position_column=names["position"],
            where="the frame",
        )
        return made if gold is None else made.with_gold(gold)

    @classmethod
    def from_columns(
        cls,
        sequence: pa.Array,
        position: pa.Array,
        annotator: pa.Array,
        label: pa.Array,
        *,
        word: pa.Array | None = None,
        sequence_column: str = "sequence",
        position_column: str = "position",
        **options: Unpack[RowOptions],
    ) -> SequenceAnnotations:
        """Build from pyarrow columns, a row for each label; ``untyped`` text becomes numbers if all of it is.

        A row without a label only declares its token.  ``word`` may hold the words.
        """
        where, error_on_repeats = options.get("where", "the data"), options.get("duplicates") == "error"
        options["origin"] = options.get("origin") or Origin("token")
        if len(sequence) == 0:
            raise DataError(f"{where} has no rows: there is nothing to aggregate")
        coded = encode_all(sequence, position, annotator, label)
        for role, name, (codes, _) in zip(
            ("sequence", "position"), (sequence_column, position_column), coded, strict=False
        ):
            if (codes < 0).any():
                rows = name_rows(np.flatnonzero(codes < 0))
                raise IdError(
                    f"{where} has no {role} in {rows} (column {name!r}); fill it in or remove the row: "
                    "a label without it has no place in the order"
                )
        (sequence_code, sequences), (position_code, positions), said_by, said = coded
        if options.get("untyped"):
            sequences, positions = numbers_where_all_are(sequences), numbers_where_all_are(positions)
        positions, rank = positions.sorted()
        # a token is a (sequence, position) that occurs; tokens are numbered by sequence, then by position
        key = sequence_code.astype(np.int64) * len(positions) + rank[position_code]
        token_key, first_row, token = np.unique(key, return_index=True, return_inverse=True)
        token_sequence, token_position = np.divmod(token_key, len(positions))
        N = token_key.size
        items = Ids.range(N)
        if error_on_repeats:  # so that the error can name the token
            names = (sequences.take(token_sequence), positions.take(token_position))
            items = Ids(pc.binary_join_element_wise(*(part.to_arrow().cast(pa.string()) for part in names), ":"))
        tokens = Annotations.from_codes((token.astype(np.int32), items), said_by, said, **options)
        return cls(
            tokens.with_items(Ids.range(N)) if error_on_repeats else tokens,
            np.concatenate([[0], np.cumsum(np.bincount(token_sequence, minlength=len(sequences)))]),
            sequences,
            token_position.astype(np.int32),
            positions,
            None if word is None else word.take(pa.array(first_row)),
            sequence_column,
            position_column,
        )

    def with_silence(self, label: Any) -> SequenceAnnotations:
        """Return the same labels where silence is an answer: who gave a token no label said this ``label``.

        If positions are whole numbers, those that nobody labelled are tokens too, from the lowest position of all
        sequences to the last labelled one of each.
        """
        tokens = self.tokens.with_class(label)
        whole = replace(self, tokens=tokens, silence=int(tokens.class_ids.codes_of([label])[0]))
        if self.n_tokens == 0 or not pa.types.is_integer(self.position_ids.to_arrow().type):
            return whole
        place = self.position_ids.to_numpy()
        lasts = place[self.position[self.indptr[1:] - 1]][self.lengths > 0]
        there, lengths = np.flatnonzero(self.lengths > 0), lasts - place[0] + 1
        if lengths.sum() > _MOST_GAPS * max(self.n_tokens, 1000):
            raise DataError(
                f"positions go up to {place[-1]}, which leaves {lengths.sum() - self.n_tokens} gaps between the "
                f"{self.n_tokens} labelled tokens; with silence={label!r} tokens must be numbered one by one"
            )
        begin = np.concatenate([[0], np.cumsum(lengths)])
        position = np.arange(begin[-1]) - np.repeat(begin[:-1], lengths) + place[0]
        return whole.with_tokens(self.sequence_ids.take(np.repeat(there, lengths)).to_arrow(), pa.array(position))

    def with_tokens(self, sequence: pa.Array, position: pa.Array) -> SequenceAnnotations:
        """Return the same labels with more tokens, given by sequence and position, which nobody labelled."""
        own = self.token_columns()
        (s, sequences), (p, positions) = (
            encode(joined(own[name], more))
            for name, more in ((self.sequence_column, sequence), (self.position_column, position))
        )
        positions, rank = positions.sorted()
        key = s.astype(np.int64) * len(positions) + rank[p]
        every, place = np.unique(key, return_inverse=True)
        at = place[: self.n_tokens]
        if (np.diff(at) <= 0).any():
            kinds = self.position_ids.to_arrow().type, position.type
            raise IdError(
                f"positions of labelled tokens are of type {kinds[0]}, those of other tokens of type {kinds[1]}"
            )
        tokens = self.tokens.among_items(at, Ids.range(every.size))
        token_sequence, token_position = np.divmod(every, len(positions))
        words = None
        if self.words is not None:
            from_own = np.full(every.size, -1)
            from_own[at] = np.arange(self.n_tokens)
            words = self.words.take(pa.array(from_own, mask=from_own < 0))
        return replace(
            self,
            tokens=tokens,
            indptr=np.concatenate([[0], np.cumsum(np.bincount(token_sequence, minlength=len(sequences)))]),
            sequence_ids=sequences,
            position=token_position.astype(np.int32),
            position_ids=positions,
            words=words,
        )

    def with_tokens_of(self, frame: Any) -> SequenceAnnotations:
        """Return the same labels with the tokens that a frame names, whether anybody labelled them or not."""
        _, columns = self._token_names(frame, "the tokens")
        return self.with_tokens(columns["sequence"], columns["position"])

    def recode(self, annotators: Ids, classes: Ids) -> SequenceAnnotations:
        """Return the same labels in the codes of other vocabularies; see :meth:`consilience.Annotations.recode`."""
        silence = self.silence
        if silence is not None:
            label = self.tokens.class_ids[silence]
            if (silence := int(classes.codes_of([label])[0])) < 0:
                raise IdError(f"silence stands for {label!r}, which is not among the classes {list(classes[:10])}")
        return replace(self, tokens=self.tokens.recode(annotators, classes), silence=silence)

    def vote_shares(self) -> Floats:
        """Return the vote shares of each token among those who gave it a label, (N, K); gold tokens at their gold.

        If nobody did, they are uniform, or the label that silence stands for.
        """
        a = self.tokens
        shares = vote_shares(a.indptr, a.label, a.gold, a.n_classes)
        if self.silence is not None:
            known = np.zeros(a.n_items, np.bool_) if a.gold is None else a.gold >= 0
            shares[(a.labels_per_item == 0) & ~known] = np.arange(a.n_classes) == self.silence
        return shares

    def with_gold(self, gold: Any) -> SequenceAnnotations:
        """Return the same labels with known truths of some tokens, which every method keeps fixed.

        Parameters
        ----------
        gold
            A frame with the sequence, the position and the label, or an array with one class for each token (NaN,
            None or -1 where unknown).  None removes them.
        """
        if gold is None:
            return replace(self, tokens=self.tokens.with_gold(None))
        return replace(self, tokens=self.tokens.with_gold(self._by_token(gold, "gold")))

    def codes_of_truth(self, truth: Any, what: str = "truth", *, strict: bool = True) -> Codes:
        """Return the class code of every token under these truths, -1 where unknown.

        Truths of unknown tokens are left out with a warning.  A truth that is not a class is an error, or gets the code
        K if not ``strict``.
        """
        return self.tokens.codes_of_truth(self._by_token(truth, what), what, strict=strict)

    def tags_of_truth(self, truth: Any) -> tuple[Codes, Ids]:
        """Return the code of every token's truth, -1 where unknown, and the classes with truths that nobody used."""
        given = self._by_token(truth, "truth")
        items, column = self.tokens.item_ids, self.tokens.origin.item
        classes = classes_with_truths(given, items, self.tokens.class_ids, column=column, what="truth")
        return truth_codes(given, items, classes, column=column, what="truth", strict=True), classes

    def _by_token(self, truth: Any, what: str) -> Any:
        """Return truths by sequence and position as truths by token."""
        if not _frames.is_frame(truth):
            return truth
        import narwhals as nw

        table = nw.from_native(truth, eager_only=True)
        names, columns = self._token_names(truth, what)
        others = [name for name in table.columns if name not in names.values()]
        own_label = self.tokens.origin.label if self.tokens.origin.label in others else None
        label = _frames.find_truth_column(others, "", own_label, what)
        token = self.token_of(columns["sequence"], columns["position"])
        codes, values = encode(to_column(arrow_or_values(table[label]), label))
        known = (token >= 0) & (codes >= 0)
        unknown = int(((token < 0) & (codes >= 0)).sum())
        if unknown and not known.any():
            raise IdError(f"none of the {unknown} tokens in {what} is among the labelled tokens; are the ids the same?")
        if unknown:
            warn(f"{what}: {unknown} tokens are not among the labelled tokens", DataWarning)
        return pa.table(
            {self.tokens.origin.item: pa.array(token[known]), "label": values.to_arrow().take(pa.array(codes[known]))}
        )

    def _token_names(self, frame: Any, what: str) -> tuple[dict[str, str], dict[str, pa.Array]]:
        """Return the names of the columns that identify tokens, by role, and the columns."""
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        own = {"sequence": self.sequence_column, "position": self.position_column}
        names = {
            role: _frames.find_column(table.columns, role, name if name in table.columns else None, what)
            for role, name in own.items()
        }
        return names, {role: to_column(arrow_or_values(table[name]), name) for role, name in names.items()}

    def token_of(self, sequence: Any, position: Any) -> Ints:
        """Return the number of each token, given its sequence and position; -1 for an unknown one."""
        s, p = self.sequence_ids.codes_of(sequence), self.position_ids.codes_of(position)
        P = max(len(self.position_ids), 1)
        own = self.sequence_of_token() * P + self.position
        wanted = np.where((s >= 0) & (p >= 0), s * P + p, -1)
        at = np.minimum(np.searchsorted(own, wanted), max(own.size - 1, 0))
        return np.where((wanted >= 0) & (own[at] == wanted), at, -1)

    # ---- looking at it ----------------------------------------------------------------------------------

    @property
    def n_sequences(self) -> int:
        """S."""
        return len(self.sequence_ids)

    @property
    def n_tokens(self) -> int:
        """N."""
        return self.tokens.n_items

    @property
    def sequences(self) -> np.ndarray[Any, Any]:
        """Names of the sequences."""
        return self.sequence_ids.to_numpy()

    @property
    def lengths(self) -> Ints:
        """Tokens of each sequence, (S,)."""
        return np.diff(self.indptr)

    def sequence_of_token(self) -> Ints:
        """Return the sequence of every token, (N,)."""
        return np.repeat(np.arange(self.n_sequences), self.lengths)

    def turned(self) -> Ints:
        """Return the tokens of each sequence in reverse order, (N,)."""
        return np.repeat(self.indptr[:-1] + self.indptr[1:] - 1, self.lengths) - np.arange(self.n_tokens)

    def backwards(self) -> SequenceAnnotations:
        """Return the same sequences in reverse order; positions stay ascending."""
        tokens = self.tokens.select_items(self.turned()).with_items(Ids.range(self.n_tokens))
        return replace(self, tokens=tokens, words=None)

    def token_columns(self) -> dict[str, pa.Array]:
        """Return the columns that identify the tokens: sequence, position and, if known, the word."""
        columns = {
            self.sequence_column: self.sequence_ids.to_arrow().take(pa.array(self.sequence_of_token())),
            self.position_column: self.position_ids.to_arrow().take(pa.array(self.position)),
        }
        return columns if self.words is None else {**columns, "word": self.words}

    def describe(self) -> dict[str, Any]:
        """Return the sizes of the data in plain numbers."""
        return {
            "sequences": self.n_sequences,
            "tokens": self.n_tokens,
            "tokens_per_sequence": min_median_max(self.lengths),
            **{key: value for key, value in self.tokens.describe().items() if key != "items"},
        }

    def to_frame(self, kind: str | None = None) -> Any:
        """Return the labels as a long frame, of the kind that they came from unless another is named."""
        a = self.tokens
        row = pa.array(a.item_of_label())
        columns = {name: column.take(row) for name, column in self.token_columns().items()}
        columns[a.origin.annotator] = a.annotator_ids.to_arrow().take(pa.array(a.annotator))
        columns[a.origin.label] = a.class_ids.to_arrow().take(pa.array(a.label))
        return _frames.make(columns, kind or a.origin.frame)

    def __repr__(self) -> str:
        a = self.tokens
        gold = "" if a.gold is None else f", gold for {int((a.gold >= 0).sum())}"
        return (
            f"<SequenceAnnotations: {a.n_labels} labels, {self.n_sequences} sequences, {self.n_tokens} tokens, "
            f"{a.n_annotators} annotators, {a.n_classes} classes{gold}>"
        )

    # ---- taking parts of it -----------------------------------------------------------------------------

    def select_sequences(self, which: Any) -> SequenceAnnotations:
        """Return these sequences (positions, a slice or a mask) in the order given, with all annotators and classes."""
        chosen = np.arange(self.n_sequences)[which]
        indptr, at = entries_of(self.indptr, chosen)
        return replace(
            self,
            tokens=self.tokens.select_items(at).with_items(Ids.range(at.size)),
            indptr=indptr,
            sequence_ids=self.sequence_ids.take(chosen),
            position=self.position[at],
            words=None if self.words is None else self.words.take(pa.array(at)),
        )
