"""Run all attacks and print how many were survived: ``python -m benchmarks.torture --seconds 600``."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.torture.calls import call, fault
from benchmarks.torture.folders import ATTACKS, Outcome
from benchmarks.torture.inputs import CASES


def bad_inputs(folder: Path) -> Outcome:
    """Call the command line with every bad file and bad option."""
    for number, case in enumerate(CASES):
        place = folder / str(number)
        place.mkdir()
        wrong = fault(call(case.put(place)), case.status, case.says)
        yield wrong and f"{case.name}: {wrong}"


def main() -> int:
    """Run the attacks; return 1 if one was not survived."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="time in all, about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("attack", nargs="*", help="words in the names of attacks; all by default")
    options = parser.parse_args()
    rng, failed = random.Random(options.seed), 0
    print(f"{'attack':<28}{'tries':>7}{'survived':>10}{'seconds':>9}")
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        attacks = {"bad inputs and options": (lambda folder, *_: bad_inputs(folder), 0.0), **ATTACKS}
        for title, (attack, share) in attacks.items():
            if options.attack and not any(word in title for word in options.attack):
                continue
            place = Path(name, title.split()[0])
            place.mkdir()
            begun = time.monotonic()
            found = list(attack(place, share * options.seconds, rng))
            bad = [wrong for wrong in found if wrong]
            failed += len(bad)
            print(f"{title:<28}{len(found):>7}{len(found) - len(bad):>10}{time.monotonic() - begun:>9.0f}", flush=True)
            for wrong in bad:
                print(f"  {wrong}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
