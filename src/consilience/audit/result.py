"""What an audit found, as tables and on one page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from consilience.audit.effects import ITSELF

__all__ = ["CLEAR", "Audit", "rows_of"]

#: Level of corrected p-values below which an effect is called clear, and rows of each part of the page.
CLEAR, _MOST = 0.05, 8


@dataclass(frozen=True, eq=False)
class Audit:
    """The audit of a panel; ``print`` shows it on one page."""

    #: Frame with a row for each judge: n_labels, accuracy (by the labels alone) with interval, bias, flags, family (0
    #: for none), share of labels that change without it; with known answers also error on these with interval, whether
    #: to keep it, and how much the error of the consensus rises without it; cost and refusals, if these were given.
    judges: Any
    #: Frame with a row for each effect: effect, judge, class, against, points (percentage points), low, high, p
    #: (corrected for the tests of one kind), labels.
    effects: Any
    families: Any  #: frame with a row for each family: family, size, correlation (of errors), judges
    #: frame with a row for each size: size, joins, error, low, high, smallest, cost; None without known answers
    panels: Any
    panel: tuple[Any, ...]  #: the smallest panel within half a point of the best; empty without known answers
    effective: float | None  #: number of independent judges that the panel is worth
    families_by_gold: bool  #: whether families rest on known answers
    items: int
    known: int  #: known answers
    level: float = field(default=0.95)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        made: dict[str, Any] = {name: getattr(self, name) for name in ("items", "known", "effective", "level")}
        made["panel"] = list(self.panel)
        for name in ("judges", "effects", "families", "panels"):
            frame = getattr(self, name)
            made[name] = None if frame is None else rows_of(frame)
        return made

    def __str__(self) -> str:
        judges = rows_of(self.judges)
        lines = [f"{len(judges)} judges, {self.items} items, {self.known} known answers.", *self.limits, ""]
        lines += [*self._worth(len(judges)), ""]
        lines += [*(self._by_gold(judges) if self.known else _by_labels(judges)), ""]
        if "refused" in judges[0]:
            lines += [*_refused(judges), ""]
        if "changed_without" in judges[0]:
            lines += [*_without(judges), ""]
        return "\n".join([*lines, *_moved(rows_of(self.effects))])

    @property
    def limits(self) -> list[str]:
        """What the audit rests on, and what cannot be known, in lines."""
        if not self.known:
            return [
                "Without known answers, errors that most judges share cannot be seen: accuracies may be too high, the",
                "effective number is an upper bound, biases that all judges share do not show, and which panel is best",
                "is unknown. Known answers to 50 to 100 random items would change that.",
            ]
        return [f"Errors come from {self.known} known answers; they speak for all items if those are a random sample."]

    @property
    def at_most(self) -> str:
        """What stands before the effective number: few known answers do not show the errors that judges share."""
        return "" if self.known >= 30 else "at most "

    def _worth(self, n: int) -> list[str]:
        lines = []
        if self.effective is not None:
            lines.append(f"The {n} judges are worth {self.at_most}{self.effective:.1f} independent ones.")
        families = rows_of(self.families)
        for row in families[:_MOST]:
            rho = f"correlation of errors {row['correlation']:.2f}"
            lines.append(f"Family {row['family']} ({row['size']} judges, {rho}): {_short(row['judges'])}")
        if len(families) > _MOST:
            lines.append(f"… and {len(families) - _MOST} smaller families (see families)")
        return lines if families else [*lines, "No families: the errors of no group of judges go together clearly."]

    def _by_gold(self, judges: list[dict[str, Any]]) -> list[str]:
        panels = rows_of(self.panels)
        chosen = next(row for row in panels if row["smallest"])
        everyone, removed = panels[-1], len(panels) - chosen["size"]
        tested = [row for row in judges if row["known"]]
        lines = ["Error on known answers, best first:"]
        for row in sorted(tested, key=lambda row: (row["error"], str(row["judge"])))[:_MOST]:
            interval = f"{row['error_low']:.1%} to {row['error_high']:.1%}"
            lines.append(f"  {row['judge']}: {row['error']:.1%} ({interval}, {row['known']} answers)")
        if len(tested) > _MOST:
            lines.append(f"  … and {len(tested) - _MOST} more")
        interval = f"{chosen['low']:.1%} to {chosen['high']:.1%}, cross-validated"
        lines += [
            f"Smallest panel within half a point of the best: {chosen['size']} of {len(panels)} judges.",
            f"  Error of its vote: {chosen['error']:.1%} ({interval}); of all judges: {everyone['error']:.1%}",
            f"  Keep: {_short(', '.join(map(str, self.panel)))}",
        ]
        if "cost" in chosen:
            lines.append(f"  Cost of an item: {chosen['cost']:.3g}, of all judges {everyone['cost']:.3g}")
        return [*lines, f"  Remove: the other {removed}"] if removed else lines


def _by_labels(judges: list[dict[str, Any]]) -> list[str]:
    lines = ["Accuracy by the consensus alone, best first:"]
    ranked = sorted((row for row in judges if row["n_labels"]), key=lambda row: (-row["accuracy"], str(row["judge"])))
    lines += [
        f"  {row['judge']}: {row['accuracy']:.1%} ({row['low']:.1%} to {row['high']:.1%})" for row in ranked[:_MOST]
    ]
    return [*lines, f"  … and {len(ranked) - _MOST} more"] if len(ranked) > _MOST else lines


def _refused(judges: list[dict[str, Any]]) -> list[str]:
    most = sorted((row for row in judges if row["refused"]), key=lambda row: (-row["refused"], str(row["judge"])))
    if not most:
        return ["No answer was refused or unparsable."]
    lines = ["Refused or unparsable answers:"]
    for row in most[:_MOST]:
        counted = ""
        if row.get("known") and row.get("error") is not None:
            counted = (
                f"; error {row['error']:.1%} without them, {row['error_with_refusals']:.1%} if they count as errors"
            )
        lines.append(
            f"  {row['judge']}: {row['refused']:.1%} ({row['refused_low']:.1%} to {row['refused_high']:.1%}){counted}"
        )
    return [*lines, f"  … and {len(most) - _MOST} more"] if len(most) > _MOST else lines


def _without(judges: list[dict[str, Any]]) -> list[str]:
    lines = ["Labels of the consensus that change without a judge:"]
    compared = [row for row in judges if row["changed_without"] == row["changed_without"]]  # NaN: no label is left
    if not compared:
        return ["No label is left without a judge."]
    for row in sorted(compared, key=lambda row: (-row["changed_without"], str(row["judge"])))[:_MOST]:
        more = row.get("more_errors_without")
        change = ""
        if more is not None and more == more:
            change = f"; error {100 * more:+.1f} points ({100 * row['more_low']:+.1f} to {100 * row['more_high']:+.1f})"
        lines.append(f"  {row['judge']}: {row['changed_without']:.1%}{change}")
    return lines


def _moved(effects: list[dict[str, Any]]) -> list[str]:
    if not effects:
        return ["No effects were tested."]
    lines = []
    for kind in dict.fromkeys(row["effect"] for row in effects):
        of = [row for row in effects if row["effect"] == kind]
        clear = sorted((row for row in of if row["p"] < CLEAR), key=lambda row: (-abs(row["points"]), row["judge"]))
        lines.append(f"{kind.capitalize()}: {len(clear)} of {len(of)} effects are clear (p < {CLEAR}, corrected).")
        for row in clear[:_MOST]:
            what = f", {row['class']}" if row["class"] else ""
            interval = f"{row['low']:+.1f} to {row['high']:+.1f}"
            against = "" if row["against"] == ITSELF else f" against {row['against']}"
            lines.append(f"  {row['judge']}{what}: {row['points']:+.1f} points ({interval}){against}")
        if len(clear) > _MOST:
            lines.append(f"  … and {len(clear) - _MOST} more (see effects)")
    return lines


def _short(names: str, most: int = 160) -> str:
    return names if len(names) <= most else names[:most].rsplit(", ", 1)[0] + ", …"


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of one of the tables."""
    import narwhals as nw

    rows: list[dict[str, Any]] = nw.from_native(frame, eager_only=True).rows(named=True)
    return rows
