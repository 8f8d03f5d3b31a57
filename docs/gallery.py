"""Draw the plots of docs/gallery.md with the code on that page."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def draw(page: Path, folder: Path) -> None:
    """Run the Python blocks of a page in ``folder``, where they write their plots."""
    import contextlib

    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, Any] = {"__name__": "__gallery__"}
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in _BLOCK.finditer(page.read_text("utf-8")):
            exec(compile(block[1], str(page), "exec"), names)
