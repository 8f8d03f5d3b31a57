"""How much memory there is, and how much of it a run may use."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from consilience.exceptions import ParameterError

__all__ = ["ITSELF", "available_bytes", "memory_bytes", "room"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

#: Memory of the interpreter, its libraries and the compiled loops, whatever the data.
ITSELF = 280 << 20
#: Less than this is not enough to work with.
_LEAST = 16 << 20


def memory_bytes(memory: int | str | None, name: str = "memory") -> int:
    """Return bytes from a number, text such as "2GiB" or "500MB", or None for half the machine's memory."""
    if memory is None:
        return available_bytes() // 2
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?|)b?\s*", memory.lower())
        memory = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if type(memory) is not int or memory <= 0:
        raise ParameterError(f"{name} must be a number of bytes or a text such as '2GiB' or '500MB'")
    return memory


def room(memory: int) -> int:
    """Return the bytes left for data if the whole process is to stay within ``memory``."""
    return max(_LEAST, (memory - ITSELF) * 3 // 4)


def available_bytes() -> int:
    """Return the memory of the machine, or of the container (cgroup) or process (ulimit) if that is less."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 << 30
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            there = min(there, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue
    if find_spec("resource"):
        import resource

        limit_of_process = resource.getrlimit(resource.RLIMIT_AS)[0]
        there = there if limit_of_process == resource.RLIM_INFINITY else min(there, limit_of_process)
    return there
