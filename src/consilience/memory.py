"""How much memory a run may take."""

from __future__ import annotations

import os
import re
from pathlib import Path

from consilience.exceptions import ParameterError

__all__ = ["ITSELF", "memory_bytes", "room"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

#: What the interpreter, its libraries and the compiled loops take, whatever the data.
ITSELF = 280 << 20
#: Less than this is not enough to work with.
_LEAST = 16 << 20


def memory_bytes(memory: int | str | None) -> int:
    """Read an amount of memory: a number of bytes, text such as "2GiB" or "500MB", or None for half the machine's."""
    if memory is None:
        return _machine() // 2
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?|)b?\s*", memory.lower())
        memory = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if type(memory) is not int or memory <= 0:
        raise ParameterError("memory must be a number of bytes or a text such as '2GiB' or '500MB'")
    return memory


def room(memory: int) -> int:
    """Give what is left for data when the whole process is to stay within ``memory``."""
    return max(_LEAST, (memory - ITSELF) * 3 // 4)


def _machine() -> int:
    """Give the memory that there is, or that the container may use."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 << 30
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            there = min(there, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue
    return there
