"""The result of a run over sequences: a label for every token, their spans, and the hidden Markov chains."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids, encode
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import DataError, FormatError
from consilience.kernels._arrays import Codes
from consilience.models.chain_mixture import ChainMixture
from consilience.runs.consensus import Consensus
from consilience.spans import SpanScores, are_tags, find_spans, span_scores

__all__ = ["SequenceRun"]


@dataclass(frozen=True, eq=False, repr=False)
class SequenceRun(Consensus):
    """A consensus of sequences: tokens are its items.

    ``model`` holds each annotator's confusion over all tokens; ``chains`` labels new sequences.
    """

    _unit = "token"

    chains: ChainMixture = field(kw_only=True)
    sequences: SequenceAnnotations = field(kw_only=True, repr=False)

    @property
    def transitions(self) -> Any:
        """``[i, k]`` is the probability that class i follows class k, (K, K)."""
        return self.chains.transitions

    @cached_property
    def spans(self) -> Any:
        """Frame with a row for each span of BIO tags: sequence, first and last position, type, text, confidence.

        The confidence of a span is the smallest of its tokens' confidences.
        """
        return _frames.make(self._span_columns(), self.origin.frame)

    def codes_of_truth(self, truth: Any) -> Codes:
        """Return the class code of every token; :meth:`consilience.SequenceAnnotations.with_gold` has the forms."""
        return self.sequences.codes_of_truth(truth, strict=False)

    def count_wrong(self, truth: Any) -> tuple[int, int]:
        """Return the number of wrong labels, and that of the tokens with both a truth and a label."""
        sequences, best = self._among(truth)
        if sequences is self.sequences:
            return super().count_wrong(truth)
        codes = sequences.codes_of_truth(truth, strict=False)
        return int((best[codes >= 0] != codes[codes >= 0]).sum()), int((codes >= 0).sum())

    def span_scores(self, truth: Any) -> SpanScores:
        """Return precision, recall and F1 of the spans, as ``conlleval`` counts them.

        True spans of a type that no annotator used count as not found.
        """
        sequences, best = self._among(truth)
        codes, classes = sequences.tags_of_truth(truth)
        return span_scores(best, codes, sequences.indptr, classes)

    def _among(self, truth: Any) -> tuple[SequenceAnnotations, Codes]:
        """Return the sequences and the labels; where silence is a label, tokens that only the truth has get it."""
        sequences, best = self.sequences, self.choice.best
        if sequences.silence is None or not _frames.is_frame(truth):
            return sequences, best
        wider = sequences.with_tokens_of(truth)
        columns = sequences.token_columns()
        at = wider.token_of(columns[sequences.sequence_column], columns[sequences.position_column])
        labels = np.full(wider.n_tokens, sequences.silence, np.int32)
        labels[at] = best
        return wider, labels

    def _label_columns(self) -> dict[str, pa.Array]:
        columns = super()._label_columns()
        del columns[next(iter(columns))]  # the number of the token
        tokens = self.sequences.token_columns()
        return {(f"{name}_" if name in columns else name): column for name, column in tokens.items()} | columns

    def _span_columns(self) -> dict[str, pa.Array]:
        if not are_tags(self.model.classes):
            raise DataError(f"the classes are not BIO tags, so there are no spans: {list(self.model.classes[:5])}")
        best, tokens = self.choice.best, self.sequences.token_columns()
        spans = find_spans(best, self.sequences.indptr, self.model.classes)
        sequence, position, *words = tokens
        confidence = self.posterior[np.arange(best.size), best]
        # the smallest in [start, stop); every second result lies between spans
        edges = np.stack([spans.start, spans.stop], axis=1).ravel()
        padded = np.append(confidence, 1.0)
        least = np.minimum.reduceat(padded, edges)[::2] if edges.size else np.zeros(0)
        columns = {
            sequence: tokens[sequence].take(pa.array(spans.start)),
            "first": tokens[position].take(pa.array(spans.start)),
            "last": tokens[position].take(pa.array(spans.stop - 1)),
            "type": pa.array(np.asarray(spans.types, object)[spans.type], pa.string()),
            "confidence": pa.array(least),
        }
        if words:
            texts = tokens[words[0]].to_pylist()
            joined = [
                " ".join(map(str, texts[a:b])) for a, b in zip(spans.start.tolist(), spans.stop.tolist(), strict=True)
            ]
            columns["text"] = pa.array(joined, pa.string())
        return columns

    def __repr__(self) -> str:
        return super().__repr__().replace("<Consensus:", f"<SequenceRun: {self.sequences.n_sequences} sequences,")

    # ---- files ------------------------------------------------------------------------------------------

    def _save_more(self, folder: Path) -> None:
        import pyarrow.csv
        import pyarrow.parquet

        self.chains.save(folder / "chains.npz")
        pyarrow.parquet.write_table(pa.table(self.sequences.token_columns()), folder / "tokens.parquet")
        if are_tags(self.model.classes):
            pyarrow.csv.write_csv(pa.table(self._span_columns()), folder / "spans.csv")

    @classmethod
    def is_saved_in(cls, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder holds a run over sequences."""
        return (Path(folder) / "tokens.parquet").is_file()

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, answers: bool = True) -> SequenceRun:
        """Read what :meth:`save` wrote, with or without the labels of the annotators."""
        import pyarrow.parquet

        run = Consensus.load(folder, answers=answers)
        try:
            table = pyarrow.parquet.read_table(Path(folder) / "tokens.parquet")
        except (OSError, pa.ArrowException) as error:
            raise FormatError(f"{folder} is damaged: {error}") from error
        names = table.column_names
        sequence, position, *words = (table[name].combine_chunks() for name in names)
        (s, sequence_ids), (p, position_ids) = encode(sequence), encode(position)
        position_ids, rank = position_ids.sorted()
        bounds = np.concatenate([[0], np.cumsum(np.bincount(s, minlength=len(sequence_ids)))])
        N, nothing = len(table), np.zeros(0, np.int64)
        names_of: Any = {"items": Ids.range(N), "annotators": run.model.annotators, "classes": run.model.classes}
        tokens = run.annotations or Annotations(
            np.zeros(N + 1, np.int64), nothing, nothing, **names_of, origin=run.origin
        )
        sequences = SequenceAnnotations(
            tokens, bounds, sequence_ids, rank[p], position_ids, words[0] if words else None, *names[:2]
        )
        if (silence := run.run.get("silence", "random")) != "random":
            sequences = replace(sequences, silence=int(run.model.classes.codes_of([silence])[0]))
        chains = ChainMixture.load(Path(folder) / "chains.npz")
        fields = {name: getattr(run, name) for name in run.__dataclass_fields__}
        return cls(**fields, chains=chains, sequences=sequences)
