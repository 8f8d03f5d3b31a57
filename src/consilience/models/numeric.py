r"""Numbers as answers: bias, scale and noise of every annotator.

Annotator m answers ``centre + bias + scale · (value - centre)``, plus noise with the given standard deviation.

====== ============ ======
symbol name         shape
====== ============ ======
b      ``bias``     (M,)
s      ``scale``    (M,)
σ      ``noise``    (M,)
μ      ``centre``   scalar
====== ============ ======
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.ids import Ids
from consilience.files import load_arrays, save_arrays
from consilience.kernels._arrays import Floats
from consilience.models.dawid_skene import set_names

__all__ = ["NumericModel"]

_FORMAT = {"format": "consilience.NumericModel", "version": 1}
_ARRAYS = ("bias", "scale", "noise")


@dataclass(frozen=True, eq=False)
class NumericModel:
    """Bias, scale and noise of annotators, with the different answers that were given."""

    bias: Floats  #: how much too high an annotator is, at the centre, (M,)
    scale: Floats  #: how far the answers spread when values spread by one, (M,)
    noise: Floats  #: standard deviation of the rest, (M,)
    centre: float
    classes: Ids  #: the different answers
    annotators: Ids

    def __post_init__(self) -> None:
        set_names(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumericModel):
            return NotImplemented
        same = all(getattr(self, name) == getattr(other, name) for name in ("centre", "classes", "annotators"))
        return same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<NumericModel: {len(self.annotators)} annotators, {len(self.classes)} different numbers>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file; names are stored in it as JSON, never as pickles."""
        content: dict[str, Any] = {"classes": self.classes.to_json(), "annotators": self.annotators.to_json()}
        content["centre"] = self.centre
        save_arrays(path, {**_FORMAT, **content}, **{name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NumericModel:
        """Read what :meth:`save` wrote."""
        content, arrays = load_arrays(path, _FORMAT, _ARRAYS, "a model written by NumericModel.save")
        names: Any = {of: Ids.from_json(content[of]) for of in ("classes", "annotators")}
        return cls(**{name: arrays[name] for name in _ARRAYS}, centre=content["centre"], **names)
