"""Labels you can trust from annotators you cannot.

>>> import consilience as cs
>>> consensus = cs.aggregate(cs.datasets.load("dawid_skene").annotations)
>>> consensus.labels  # doctest: +SKIP
"""

from importlib import import_module

__version__ = "0.1.0"

# The type stub is the only list of public names, one import per line: "from module import name as name".  Each name is
# imported when it is first used, so that ``consilience --help`` needs none of them.
with open(f"{__file__}i", encoding="utf-8") as _stub:  # noqa: PTH123
    _HOME = {line.split()[3]: line.split()[1] for line in _stub if line.startswith("from ")}

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
