"""Configuration of Sphinx: Markdown through MyST, with the theme furo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from consilience import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "consilience"
author = "The consilience authors"
copyright = author  # noqa: A001 - the name that Sphinx expects
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]  # plots of the gallery are drawn into _gallery
html_theme = "furo"
html_title = f"consilience {release}"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings describe parameters; the types are in the source
python_maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_use_ivar = True


def setup(app: Any) -> None:
    """Draw the gallery before anything is read."""
    from gallery import draw

    app.connect("builder-inited", lambda _: draw(HERE / "gallery.md", HERE / "_gallery"))
