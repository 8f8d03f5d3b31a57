"""Pictures for notebooks and papers; they need matplotlib (``pip install 'consilience[plot]'``).

Each function returns a matplotlib figure.  ``where`` may be a path that ends in .png, .svg or .pdf, to write it to; for
pictures of one panel also axes, to draw into.
"""

from __future__ import annotations

from consilience.plot.blocks import blocks
from consilience.plot.curves import label_curves
from consilience.plot.fitting import learning_curve, reliability
from consilience.plot.judges import cost_against_error
from consilience.plot.people import annotator_map, confusions

__all__ = [
    "annotator_map",
    "blocks",
    "confusions",
    "cost_against_error",
    "label_curves",
    "learning_curve",
    "reliability",
]
