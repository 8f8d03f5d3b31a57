"""Labels you can trust from annotators you cannot.

>>> import consilience as cs
>>> consensus = cs.aggregate(cs.datasets.load("dawid_skene").annotations)
>>> consensus.labels  # doctest: +SKIP
"""

import re
from importlib import import_module
from pkgutil import get_data

__version__ = "0.1.0"

# The type stub is the only list of public names.  Each is imported when it is first used: ``consilience --help`` needs
# none of them.
_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_HOME = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.MULTILINE)}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'consilience' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
