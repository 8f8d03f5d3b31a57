"""Pictures for notebooks and papers; they need matplotlib, which ``pip install 'consilience[plot]'`` brings.

Each function gives a figure of matplotlib.  ``where`` may be a path that ends in .png, .svg or .pdf, to write it to;
for pictures of one panel also axes, to draw it into.
"""

from __future__ import annotations

from consilience.plot.blocks import blocks
from consilience.plot.fitting import learning_curve, reliability
from consilience.plot.people import annotator_map, confusions

__all__ = ["annotator_map", "blocks", "confusions", "learning_curve", "reliability"]
