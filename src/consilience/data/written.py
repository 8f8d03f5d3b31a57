"""Answers as people write them: "don't know" where a level or a number was asked for, and numbers with units.

A number may have a unit or a sign of currency before or behind it, the same for all answers (``12 kg``, ``$1,200.50``,
``56 %``), and separators of thousands.  If some answers cannot be read with a decimal point, all are read with a
decimal comma (``1.200,5``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.kernels._arrays import Floats

__all__ = ["Answered", "numbers_with_units", "without_no_answers"]

#: What stands for no answer, in lower case, without apostrophes and punctuation.  "Unsure" may be a middle level.
_WORDS = (
    "dont know|do not know|i dont know|dk|idk|no idea|na|n a|not applicable|no answer|no opinion|no response|refused|"
    "prefer not to say|prefer not to answer|cant say|cannot say|cant tell|cannot tell|skip|skipped"
)
_NO_ANSWER = frozenset(_WORDS.split("|"))
_NUMBER = re.compile(r"\d(?:[\d.,'\u2019\u00a0\u202f ]*\d)?")
_POINT = re.compile(r"\d+(?:\.\d+)?|\d{1,3}(?:([,'\u2019\u00a0\u202f ])\d{3})(?:\1\d{3})*(?:\.\d+)?")
_COMMA = re.compile(r"\d+(?:,\d+)?|\d{1,3}(?:([.'\u2019\u00a0\u202f ])\d{3})(?:\1\d{3})*(?:,\d+)?")


class Answered(NamedTuple):
    """Labels without those that are no answer."""

    annotations: Annotations
    sentence: str  #: what was left out


def without_no_answers(annotations: Annotations) -> Answered | None:
    """Return the labels without "don't know" and the like; None if there are none, or no others."""
    a = annotations
    gone = np.array([_plain(name) in _NO_ANSWER for name in a.class_ids], bool)
    if not gone.any() or gone.all():
        return None
    keep = ~gone[a.label]
    lengths = np.bincount(a.item_of_label()[keep], minlength=a.n_items)
    said = ", ".join(repr(str(name)) for name in a.class_ids.take(np.flatnonzero(gone)))
    sentence = f"{int((~keep).sum())} of {a.n_labels} answers are {said}, and are left out"
    made = a._with(
        indptr=np.concatenate([[0], np.cumsum(lengths)]),
        annotator=a.annotator[keep],
        label=a.label[keep],
        time=None if a.time is None else a.time[keep],
        gold=None if a.gold is None else np.where(np.append(gone, True)[a.gold], -1, a.gold),
        origin=replace(a.origin, notes=(*a.origin.notes, sentence)),
    )
    return Answered(made.recode(a.annotator_ids, a.class_ids.take(np.flatnonzero(~gone))), sentence)


def _plain(name: object) -> str:
    words = re.sub(r"['\u2019`]", "", str(name).casefold())
    return " ".join(re.sub(r"[^a-z0-9]+", " ", words).split())


def numbers_with_units(names: Ids) -> tuple[Floats, str] | None:
    """Return names as numbers, and their common unit; None if some are not, or if units differ."""
    parts = [_split(str(name)) for name in names]
    found = [part for part in parts if part is not None]
    units = {unit.removesuffix("s") if len(unit) > 2 else unit for _, _, unit in found} - {""}
    if len(found) < len(parts) or len(units) > 1:
        return None
    for form, separator, decimal in ((_POINT, ",", "."), (_COMMA, ".", ",")):
        if all(form.fullmatch(digits) for _, digits, _ in found):
            plain = (re.sub(r"['\u2019\s]", "", digits).replace(separator, "") for _, digits, _ in found)
            values = [float(text.replace(decimal, ".")) for text in plain]
            signs = np.array([sign for sign, _, _ in found], float)
            return signs * np.array(values, float), next((unit for _, _, unit in found if unit), "")
    return None


def _split(text: str) -> tuple[float, str, str] | None:
    """Return sign, digits with separators, and unit; None if there is no number, or more than one."""
    at = _NUMBER.search(text)
    if at is None or re.search(r"\d", text[at.end() :]):
        return None
    before, after = text[: at.start()].strip(), text[at.end() :].strip()
    # letters before a number make it a name, except those of a currency
    minus = re.fullmatch(r"([-+\u2212]?)\s*([^-+\u2212\w]?|[A-Z]{3}|[A-Z]{0,2}\$)\s*([-+\u2212]?)", before)
    if minus is None or (minus[1] and minus[3]) or (minus[2] and after):
        return None
    sign = -1.0 if (minus[1] or minus[3]) in ("-", "\u2212") else 1.0
    return sign, at.group(), (minus[2] or after).casefold()
