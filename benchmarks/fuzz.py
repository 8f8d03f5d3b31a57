"""Random bytes for every reader, guided by line coverage (atheris): ``make fuzz``.

Every file must give annotations or a :class:`consilience.exceptions.ConsilienceError`, within seconds and two
gigabytes.  Each reader runs in a process of its own and starts from the small files of
``tests/io/export_files.py``.  Without atheris, the same files are mutated without guidance.

``python -m benchmarks.fuzz --seconds 10 label-studio prodigy`` runs two of them for ten seconds each.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tests.io.export_files import EXAMPLES, TOKENS
from tests.io.export_making import Example

_MOST_MEGABYTES, _MOST_SECONDS = 2048, 20
_LONGEST = 4096


def readers() -> dict[str, list[Example]]:
    """Return the seed files, by format."""
    more = [Example("labels.tsv", b"task\tworker\tlabel\n1\ta\tx\n1\tb\ty\n", "tsv", [])]
    found: dict[str, list[Example]] = {}
    for example in (*EXAMPLES.values(), *TOKENS.values(), *more):
        found.setdefault(example.name, []).append(example)
    return found


class Target:
    """Reads bytes as one format; the first byte selects the file that they replace."""

    def __init__(self, name: str, folder: Path) -> None:
        self.examples = readers()[name]
        self.places = [example.put(folder / str(n)) for n, example in enumerate(self.examples)]
        self.calls = 0

    def seeds(self) -> list[bytes]:
        """Return the seed inputs."""
        contents = [self._content(example) for example in self.examples]
        return [bytes([n]) + content for n, content in enumerate(contents)]

    @staticmethod
    def _content(example: Example) -> bytes:
        return example.content if isinstance(example.content, bytes) else [*example.content.values()][-1]

    def __call__(self, data: bytes) -> None:
        """Read with the format recognised, and with the format given."""
        import consilience as cs

        self.calls += 1
        n = (data[0] if data else 0) % len(self.examples)
        example, place = self.examples[n], self.places[n]
        inside = place if isinstance(example.content, bytes) else place / [*example.content][-1]
        inside.write_bytes(data[1:])
        for options in ({}, {"format": example.name, "question": example.question}):
            try:
                cs.read(place, **options)  # type: ignore[arg-type]
            except cs.exceptions.ConsilienceError as error:
                if not str(error).strip():
                    raise RuntimeError("an error without a message") from error


def _guided(target: Target, folder: Path, seconds: int) -> None:
    import atheris

    corpus = folder / "corpus"
    corpus.mkdir()
    for n, seed in enumerate(target.seeds()):
        (corpus / f"seed{n}").write_bytes(seed)
    flags = (
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={_MOST_MEGABYTES}",
        f"-timeout={_MOST_SECONDS}",
        f"-max_len={_LONGEST}",
        f"-artifact_prefix={Path.cwd()}/fuzz-",
        "-print_final_stats=1",
        "-verbosity=0",
    )
    atheris.Setup([sys.argv[0], *flags, str(corpus)], target)
    atheris.Fuzz()  # exits the process


def _blind(target: Target, seconds: int) -> None:
    chance = random.Random(0)
    seeds = target.seeds()
    end = time.process_time() + seconds
    while time.process_time() < end:
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(1, len(data) + 1)
            if chance.random() < 0.4:
                data[at:at] = chance.choice(
                    (b'"', b"[", b"{", b"\n", b",", b"null", b"-1", b"9" * 30, b"\xff", b"\x00")
                )
            elif chance.random() < 0.5:
                del data[at : at + chance.randint(1, 20)]
            elif at < len(data):
                data[at] = chance.randrange(256)
        begun = time.perf_counter()
        try:
            target(bytes(data))
        except Exception:
            Path("fuzz-crash").write_bytes(data)
            raise
        if time.perf_counter() - begun > _MOST_SECONDS:
            Path("fuzz-timeout").write_bytes(data)
            raise TimeoutError(f"a file of {len(data)} bytes took longer than {_MOST_SECONDS} s")


def one(name: str, seconds: int) -> None:
    """Fuzz one reader in this process until the time is up."""
    guided = find_spec("atheris") is not None
    if guided:
        import atheris

        import consilience.kernels

        # atheris instruments whole packages; numba cannot compile what it adds to the kernels
        loops = [f"consilience.kernels.{module.name}" for module in iter_modules(consilience.kernels.__path__)]
        with atheris.instrument_imports(include=["consilience.io", "json", "csv"], exclude=loops):
            _load()
    _load()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        target = Target(name, Path(folder) / "files")
        if guided:
            _guided(target, Path(folder), seconds)
        else:
            _blind(target, seconds)
            print(f"{target.calls} files")


def _load() -> None:
    """Import all readers."""
    from importlib import import_module

    from consilience.io.formats import EXPORTS

    for module in ("sequences", "conll", "brat", *(module for tool in EXPORTS.values() for module in tool.modules)):
        import_module(f"consilience.io.{module}")


def main(arguments: list[str]) -> int:
    """Fuzz the readers in turn; the exit status is 1 if something was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Random bytes for every reader.")
    parser.add_argument("readers", nargs="*", help="formats by name; default all")
    parser.add_argument("--seconds", type=int, default=120, help="for each reader")
    parser.add_argument("--one", action="store_true", help="run the named one in this process")
    given: Any = parser.parse_args(arguments)
    names = given.readers or list(readers())
    if given.one:
        one(names[0], given.seconds)
        return 0
    found = []
    how = "guided by coverage" if find_spec("atheris") else "unguided: atheris is not installed"
    print(f"{len(names)} readers, {given.seconds} s each, {how}", flush=True)
    for name in names:
        command = [sys.executable, "-m", "benchmarks.fuzz", "--one", "--seconds", str(given.seconds), name]
        begun = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        told = done.stdout + done.stderr
        files = [line.split()[-1] for line in told.splitlines() if "number_of_executed_units" in line]
        took = time.perf_counter() - begun
        verdict = "FOUND" if done.returncode else "ok"
        print(f"{name:14} {files[0] if files else '?':>9} files in {took:5.0f} s: {verdict}", flush=True)
        if done.returncode:
            found.append(name)
            kept = [line for line in told.splitlines() if not line.startswith(("INFO", "WARNING", "stat::"))]
            print("\n".join(kept[-40:]), flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{(used.ru_utime + used.ru_stime) / 60:.1f} CPU-minutes; findings: {', '.join(found) or 'none'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
