"""The result of ranking items by comparisons: tables, sentences, predictions, files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.frames import Origin
from consilience.data.ids import Ids, to_column
from consilience.exceptions import FormatError
from consilience.files import atomic_folder, check_checksums, load_arrays, save_arrays, write_checksums
from consilience.kernels._arrays import Floats, Ints
from consilience.ranking import advice as _advice
from consilience.ranking import tables
from consilience.ranking.comparisons import Comparisons, find_columns, length_advantage
from consilience.ranking.model import BradleyTerry, Effects, outcome_probabilities
from consilience.ranking.pairs import pair_columns

__all__ = ["Ranking"]

SUMMARY = "summary.json"
_FORMAT = {"format": "consilience.Ranking", "version": 1}
_MODEL, _COMPARISONS = "model.npz", "comparisons.parquet"
_CODES = ("first", "second", "judge", "side", "outcome", "length", "task", "weight")
_ARRAYS = ("scores", "judges", "average", "judge_spreads", "common", "own", "deviation", "judge_deviations")
_MORE = ("rank_low", "rank_high", "close_item", "close_other", "close_deviation", "item_lengths")


@dataclass(frozen=True, eq=False)
class Ranking:
    """Items in order, with scores, judges and how sure all of it is.

    ``scores``, ``judges``, ``win_rates``, ``pairs``, ``indistinguishable`` and ``next_comparisons`` are frames of the
    kind that the comparisons came in.
    """

    comparisons: Comparisons
    model: BradleyTerry
    deviation: Floats  #: standard deviation of every score, (N,)
    judge_deviations: Floats  #: of the parameters of every judge, (M, 4)
    rank_low: Ints  #: limits of the 95 % interval of every rank, (N,)
    rank_high: Ints
    close: tuple[Ints, Ints, Floats]  #: pairs whose order is open: item, other, standard deviation of the difference
    run: Mapping[str, Any]  #: seed, seconds, log_posterior, converged, iterations, parameters, notes

    @cached_property
    def scores(self) -> Any:
        """Frame with a row for each item, the best first.

        item; score (log-odds against an average item, for the average judge) with low and high (95 %); rank with
        rank_low and rank_high; win_rate (expected against all others, ties as halves); n_comparisons, wins, losses,
        ties.  If comparisons do not connect all items there is a column group, and ranks hold within a group.
        """
        return self._frame("scores")

    @cached_property
    def judges(self) -> Any:
        """Frame with a row for each judge.

        n_comparisons; reliability (1 is average, 0 guesses, below 0 prefers the worse item) with low and high (95 %);
        agreement (share of their decided comparisons in which the higher score wins); tie_share; left_share and
        longer_share (how often the left, and a text of twice the length, wins between equal items); flags.
        """
        return self._frame("judges")

    @cached_property
    def win_rates(self) -> Any:
        """Frame with a row for each pair that was compared, the item with the higher score first.

        item, other, n_comparisons, wins, ties, losses (of ``item``), observed and expected win rate, ties as halves.
        """
        return self._frame("win_rates")

    @cached_property
    def pairs(self) -> Any:
        """Frame with the consensus of the judges on each pair (and task), by the default method for labels.

        task (if there are tasks), left (the item with the higher score), right, winner ("left", "tie" or "right"),
        confidence, n_comparisons.
        """
        return self._frame("pairs")

    @cached_property
    def indistinguishable(self) -> Any:
        """Frame with the pairs of items whose order is open: the 95 % interval of their difference contains 0.

        item, other, difference (of their scores), low, high, probability (that the item is better).  With more than
        some hundred items, only those that follow each other closely are examined.
        """
        return self._frame("indistinguishable")

    @cached_property
    def next_comparisons(self) -> Any:
        """Frame with the pairs to compare next: item, other, reason."""
        return self._frame("next_comparisons")

    @cached_property
    def reliability(self) -> float:
        """The share of the variation of scores that is not chance."""
        return _advice.reliability(self)

    @property
    def n_groups(self) -> int:
        """Number of groups of items that comparisons connect; 1 if all are comparable."""
        return self.comparisons.groups[0]

    @property
    def headline(self) -> str:
        """Whether the order can be trusted, in a sentence or two."""
        return _advice.headline(self)

    @property
    def best(self) -> str:
        """Who is best, and who may be as good, in a sentence."""
        return _advice.best(self)

    @property
    def advice(self) -> list[str]:
        """What to do next, most important first."""
        return _advice.advice(self)

    @property
    def notes(self) -> list[str]:
        """What the user should know about the comparisons and the fit."""
        return list(self.run["notes"])

    def expected_win_rates(self) -> Floats:
        """Return the probability that each item beats each other for the average judge, ties as halves, (N, N).

        Rows and columns follow ``comparisons.item_ids``; ``win_rates`` has the pairs that were compared.
        """
        s = self.model.scores
        p = outcome_probabilities(s[:, None] - s[None, :], self.model.average[3], self.model.effects.ties)
        return np.asarray(p[..., 0] + 0.5 * p[..., 1])

    def predict(self, comparisons: Any) -> Any:
        """Return the probabilities of the outcomes of comparisons: a frame with left, tie and right.

        ``comparisons`` is a frame with ``left`` and ``right``, and if known ``worker`` and lengths.
        An unknown judge, or none, counts as the average one; an unknown item as an average one.
        """
        import narwhals as nw

        frame = nw.from_native(comparisons, eager_only=True)
        columns = list(frame.columns)
        names = find_columns([*columns, "winner"] if "winner" not in columns else columns, "the frame")
        by = {role: to_column(frame[name].to_arrow(), name) for role, name in names.items() if name in columns}
        data = self.comparisons
        left, right = (data.item_ids.codes_of(by[role]) for role in ("left", "right"))
        judge = np.full(left.size, -1) if "worker" not in by else data.judge_ids.codes_of(by["worker"])
        length: Any = 0.0
        if "left_length" in by:
            one, two = (np.log1p(np.asarray(by[role], np.float64)) for role in ("left_length", "right_length"))
            length = np.nan_to_num(length_advantage(one - two))
        padded = np.append(self.model.scores, 0.0)  # code -1 is an average item
        model = BradleyTerry(padded, *(getattr(self.model, name) for name in _OTHERS))
        p = model.probabilities(left, right, judge, np.ones(left.size), length)
        return _frames.make({"left": p[:, 0], "tie": p[:, 1], "right": p[:, 2]}, _frames.kind_of(comparisons))

    def summary(self) -> dict[str, Any]:
        """Return the run in plain values: the content of ``summary.json``."""
        data, model = self.comparisons, self.model
        shares = (int(np.sum(data.outcome == 0)), data.n_comparisons)
        first = pa.table(self._columns["scores"]).slice(0, 1)
        return {
            **_FORMAT,
            "N": data.n_items,
            "M": data.n_judges,
            "comparisons": data.n_comparisons,
            "ties": shares[0],
            "groups": self.n_groups,
            "reliability": self.reliability,
            "best": first["item"][0].as_py() if self.n_groups == 1 else None,
            "headline": self.headline,
            "indistinguishable": int(self.close[0].size),
            "spread": model.spread,
            "position": float(model.average[1]) if model.effects.common[1] else None,
            "length": float(model.average[2]) if model.effects.common[2] else None,
            "flagged_judges": sum(bool(flags) for flags in self._columns["judges"]["flags"]),
            **self.run,
        }

    # ---- files ------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], *, pairs: bool = True) -> None:
        """Write the tables as CSV to a folder, with summary.json, and what :meth:`load` needs.

        The folder appears complete or not at all.  ``pairs`` says whether pairs.csv, which takes longest, is written.
        """
        import pyarrow.csv
        import pyarrow.parquet

        wanted = [
            "scores",
            "judges",
            "win_rates",
            "indistinguishable",
            "next_comparisons",
            *(["pairs"] if pairs else []),
        ]
        with atomic_folder(folder, SUMMARY) as fresh:
            for name in wanted:
                pyarrow.csv.write_csv(pa.table(self._columns[name]), fresh / f"{name}.csv")
            self._save_model(fresh / _MODEL)
            codes = {name: pa.array(values) for name in _CODES if (values := getattr(self.comparisons, name)).size}
            pyarrow.parquet.write_table(pa.table(codes), fresh / _COMPARISONS, compression="zstd")
            text = json.dumps(self.summary(), indent=2, ensure_ascii=False, default=str)
            (fresh / SUMMARY).write_text(text + "\n", "utf-8")
            write_checksums(fresh)

    def _save_model(self, path: Path) -> None:
        data, model = self.comparisons, self.model
        content = {
            **_FORMAT,
            **{name: getattr(data, f"{name}_ids").to_json() for name in ("item", "judge", "task")},
            "spread": model.spread,
            "slope": model.slope,
            "columns": {"annotator": data.origin.annotator, "label": data.origin.label},
        }
        arrays: list[Any] = [model.scores, model.judges, model.average, model.judge_spreads, model.effects.common]
        arrays += [model.effects.own, self.deviation, self.judge_deviations]
        more: list[Any] = [self.rank_low, self.rank_high, *self.close, data.item_lengths]
        save_arrays(path, content, **dict(zip(_ARRAYS + _MORE, arrays + more, strict=True)))

    @classmethod
    def is_saved_in(cls, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder holds a ranking."""
        try:
            summary = json.loads((Path(folder) / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(summary, dict) and summary.get("format") == _FORMAT["format"]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Ranking:
        """Read what :meth:`save` wrote."""
        import pyarrow.parquet

        place = Path(folder)
        check_checksums(place)
        try:
            summary = json.loads((place / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{place} is not the folder of a ranking: cannot read its {SUMMARY}") from error
        if not isinstance(summary, dict) or summary.get("format") != _FORMAT["format"]:
            raise FormatError(f"{place} is not the folder of a ranking")
        content, a = load_arrays(place / _MODEL, _FORMAT, _ARRAYS + _MORE, "the model of a ranking")
        try:
            table = pyarrow.parquet.read_table(place / _COMPARISONS)
        except (OSError, pa.ArrowException) as error:
            raise FormatError(f"{place} is damaged: {error}") from error
        codes: dict[str, Any] = {
            name: np.asarray(table[name]) if name in table.column_names else np.empty(0) for name in _CODES
        }
        ids: dict[str, Any] = {f"{name}_ids": Ids.from_json(content[name]) for name in ("item", "judge", "task")}
        data = Comparisons(**codes, item_lengths=a["item_lengths"], **ids, origin=Origin(**content["columns"]))
        effects = Effects(a["common"], a["own"])
        fitted = a["scores"], a["judges"], a["average"], content["spread"], a["judge_spreads"], content["slope"]
        close = a["close_item"], a["close_other"], a["close_deviation"]
        run = {name: summary[name] for name in summary["run"]}
        deviations = a["deviation"], a["judge_deviations"], a["rank_low"], a["rank_high"]
        return cls(data, BradleyTerry(*fitted, effects), *deviations, close, run)

    # ---- tables -----------------------------------------------------------------------------------------

    @cached_property
    def _columns(self) -> _Columns:
        return _Columns(self)

    def columns(self, name: str) -> dict[str, Any]:
        """Return the columns of a table, such as "scores", as Arrow arrays."""
        return self._columns[name]

    def _frame(self, name: str) -> Any:
        return _frames.make(self._columns[name], self.comparisons.origin.frame)

    def _repr_html_(self) -> str:
        """Show the first items in a notebook."""
        from consilience.data.names import lines, table

        first = pa.table(self._columns["scores"]).slice(0, 10)
        made = lines(self.headline) + lines(self.best)
        return str(made + table("First items", first.column_names, zip(*first.to_pydict().values(), strict=True)))

    def __repr__(self) -> str:
        data = self.comparisons
        groups = "" if self.n_groups == 1 else f" in {self.n_groups} groups"
        return f"<Ranking: {data.n_items} items{groups}, {data.n_comparisons} comparisons, {data.n_judges} judges>"


_OTHERS = ("judges", "average", "spread", "judge_spreads", "slope", "effects")


class _Columns(dict[str, dict[str, Any]]):
    """The columns of each table, computed when first needed."""

    def __init__(self, ranking: Ranking) -> None:
        super().__init__()
        self.ranking = ranking

    def __missing__(self, name: str) -> dict[str, Any]:
        ranking = self.ranking
        make = {
            "scores": lambda: tables.score_columns(ranking),
            "judges": lambda: tables.judge_columns(ranking),
            "win_rates": lambda: tables.win_columns(ranking),
            "pairs": lambda: pair_columns(ranking.comparisons, ranking.model.scores, ranking.run["seed"]),
            "indistinguishable": lambda: tables.close_columns(ranking),
            "next_comparisons": lambda: _advice.next_columns(ranking),
        }
        self[name] = made = make[name]()
        return made
