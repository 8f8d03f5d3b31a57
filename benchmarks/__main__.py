"""``make bench``: run every benchmark, or those named: ``python -m benchmarks em_pass accuracy``."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.figures import print_all

ALL = ("reading", "em_pass", "whole_fit", "acceleration", "memory", "accuracy")


def main(names: list[str]) -> int:
    figures = []
    for name in names or ALL:
        print(f"== {name}", flush=True)
        figures += import_module(f"benchmarks.{name}").run()
    return print_all(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
