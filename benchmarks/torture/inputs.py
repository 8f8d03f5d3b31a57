"""Bad inputs and bad options: files, what the command line is called with, and the exit status and message expected."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["CASES", "Case"]

_HEADER = "task,worker,label\n"
_ROWS = [(f"t{i}", f"w{j}", "abc"[(i + (i * j) % 5 // 4) % 3]) for i in range(30) for j in range(5)]
#: A file that is as it should be.
GOOD = _HEADER + "".join(f"{i},{j},{k}\n" for i, j, k in _ROWS)


class Case(NamedTuple):
    """A file, and what must be said of it; ``{}`` in the arguments is its path."""

    name: str
    file: str
    content: bytes | str | Callable[[Path], None]
    arguments: tuple[str, ...] = ("aggregate", "{}", "--method", "ds-em")
    status: int = 1
    says: str = ""  #: regular expression, found in what is printed on stderr

    def put(self, folder: Path) -> list[str]:
        """Write the file, and return the arguments of the command line."""
        path = Path(self.file) if self.file.startswith("/") else folder / self.file
        if callable(self.content):
            self.content(path)
        elif not self.file.startswith("/"):
            path.write_bytes(self.content.encode() if isinstance(self.content, str) else self.content)
        (folder / "good.csv").write_text(GOOD)
        return [a.format(path, folder=folder, good=folder / "good.csv") for a in self.arguments]


_NOWHERE = ("--engine", "dask", "--scheduler", "nonsense://x")


def _with(*arguments: str) -> tuple[str, ...]:
    return ("aggregate", "{}", "--method", "ds-em", *arguments)


def _rank(*arguments: str) -> tuple[str, ...]:
    return ("rank", "{}", *arguments)


def _estimate(*arguments: str) -> tuple[str, ...]:
    return ("estimate", "{good}", *arguments)


def _audit(*arguments: str) -> tuple[str, ...]:
    return ("audit", "{good}", "--no-without", *arguments)


def _array(values: object, kind: str) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(values, kind))
    return file.getvalue()


def _parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(zip(("task", "worker", "label"), zip(*_ROWS, strict=True), strict=True))), path)


def _cut_parquet(path: Path) -> None:
    _parquet(path)
    path.write_bytes(path.read_bytes()[:-40])


def _tasks(change: Mapping[str, object]) -> str:
    made = [
        {
            "completed_by": j,
            "result": [{"from_name": "q", "to_name": "t", "type": "choices", "value": {"choices": ["ab"[i * j % 2]]}}],
        }
        for i in (1,)
        for j in range(3)
    ]
    tasks = [{"id": i, "data": {"t": "x"}, "annotations": made} for i in range(5)]
    tasks[0] |= change
    return json.dumps(tasks)


_NESTED = "[" * 20_000 + "]" * 20_000
_LINES = "".join(json.dumps(dict(zip(("task", "worker", "label"), row, strict=True))) + "\n" for row in _ROWS)
_ONE_DENSE = _HEADER + "".join(f"t0,w{j},{'abc'[j % 3]}\n" for j in range(10_000)) + GOOD[len(_HEADER) :]
_WIDE = (
    "task," + ",".join(f"w{j}" for j in range(50_000)) + "\nt0," + ",".join("abc"[j % 3] for j in range(50_000)) + "\n"
)
_NAMES = {"a": "😀\u200d", "b": "\u202eنعم", "c": "e\u0301"}
_STRANGE = _HEADER + "".join(f"{i}\u2028,👩‍👧{j},{_NAMES[k]}\n" for i, j, k in _ROWS)
_LONG = _HEADER + "".join(f"{i},{j},{k * 50_000}\n" for i, j, k in _ROWS)
_NUMBERS = _HEADER + "".join(f"{i},{j},{7919 * n % 1000}e305\n" for n, (i, j, _) in enumerate(_ROWS))
_PAIRS = "left,right,worker,winner\n" + "".join(
    f"{'abcd'[n % 4]},{'abcd'[(n + 1 + n // 4 % 3) % 4]},j{n % 5},{('left', 'right', 'tie')[n * n % 7 % 3]}\n"
    for n in range(60)
)
_GOLD = "task,label\n" + "".join(f"t{i},{'abc'[i % 3]}\n" for i in range(20))
_FIRST = "task,worker,first\n" + "".join(f"{i},{j},{'ab'[n % 2]}\n" for n, (i, j, _) in enumerate(_ROWS))
_BOMB = gzip.compress((_HEADER + "t,w,a\n" * 3_000_000).encode(), 6)
_LIMIT = ("--max-bytes", "1MB")

CASES: tuple[Case, ...] = (
    # tables
    Case("good file", "a.csv", GOOD, status=0),
    Case("no file", "/nowhere/a.csv", "", says="there is no file"),
    Case("empty file", "a.csv", "", says="empty"),
    Case("header only", "a.csv", _HEADER, says="no rows"),
    Case("no header", "a.csv", "t1,w1,a\n" * 9, says="no item, annotator or label column|not recognised"),
    Case("missing column", "a.csv", "task,worker\n1,2\n", says="label column"),
    Case("same column twice", "a.csv", "task,task,worker,label\n1,1,2,3\n", says="several columns"),
    Case("too few fields", "a.csv", GOOD + "t1,w1\n", says="line 152: 2 fields"),
    Case("too many fields", "a.csv", GOOD + "t1,w1,a,b\n", says="line 152: 4 fields"),
    Case("open quote", "a.csv", GOOD + '"t1,w1,a\n' + GOOD, says="quote|fields|end of its line"),
    Case("blank ids", "a.csv", _HEADER + " ,w,a\n" * 5, says="item|id"),
    Case("blank labels", "a.csv", _HEADER + "t,w,\n" * 5, says="label"),
    Case("zero bytes", "a.csv", GOOD.replace("t1,", "t1\0,"), status=0),
    Case("random bytes", "a.csv", np.random.default_rng(0).bytes(5000), says="not text|header|encod"),
    Case("one row", "a.csv", _HEADER + "t,w,a\n", status=0),
    Case("one annotator", "a.csv", _HEADER + "".join(f"t{i},w,{i % 2}\n" for i in range(20)), status=0),
    Case("one class", "a.csv", _HEADER + "".join(f"t{i},w{j},a\n" for i in range(9) for j in range(3)), status=0),
    Case("repeated answers", "a.csv", GOOD * 1 + GOOD[len(_HEADER) :], status=0, says="repeat"),
    Case("task and item", "a.csv", "item," + GOOD.replace("\nt", "\n0,t"), status=0, says="is taken as the item"),
    Case("one dense item", "a.csv", _ONE_DENSE, status=0),
    Case("one dense item, auto", "a.csv", _ONE_DENSE, ("aggregate", "{}"), status=0),
    Case("one dense item, rob-symnmf", "a.csv", _ONE_DENSE, ("aggregate", "{}", "--method", "rob-symnmf"), status=0),
    Case("50,000 columns", "a.csv", _WIDE, ("aggregate", "{}"), status=0),
    Case("1,000 classes", "a.csv", _HEADER + "".join(f"t{i},w{i % 3},c{i}\n" for i in range(1000)), status=0),
    Case("line of a megabyte", "a.csv", GOOD + "x" * (1 << 20) + ",w,a\n", status=0),
    Case("terminal escapes", "a.csv", GOOD.replace("w1", "\x1b[2J\x9b31m"), status=0),
    Case("formulas", "a.csv", GOOD.replace("t1,", "=cmd|x!A0,"), _with("--out", "{folder}/run"), 0, "formula"),
    Case("lines that end in CR", "a.csv", GOOD.replace("\n", "\r"), status=0),
    Case("line ends of all kinds", "a.csv", GOOD.replace("\n", "\r\n", 40).replace("a\n", "a\r"), status=0),
    Case("two byte order marks", "a.csv", "\ufeff\ufeff" + GOOD, status=0),
    Case("blank line first", "a.csv", "\n" + GOOD, says="first line is blank"),
    Case("zero bytes in the header", "a.csv", GOOD.replace("task", "ta\0sk"), says="zero bytes"),
    Case(
        "two label columns",
        "a.csv",
        "label," + GOOD.replace("\nt", "\nx,t"),
        _with("--label", "label"),
        says="rename all",
    ),
    Case("labels named like columns", "a.csv", GOOD.replace(",a\n", ",task\n").replace(",b\n", ",label\n"), status=0),
    Case("emoji, directions, accents", "a.csv", _STRANGE, ("aggregate", "{}"), 0),
    Case("zero-width characters", "a.csv", GOOD.replace("a\n", "a\u200b\n", 20), status=0, says="invisible"),
    Case("labels of 50,000 characters", "a.csv", _LONG, ("diagnose", "{}"), 0),
    Case("labels true and inf", "a.csv", GOOD.replace(",a\n", ",true\n").replace(",b\n", ",inf\n"), status=0),
    Case("numbers near overflow", "a.csv", _NUMBERS, ("aggregate", "{}"), says="other units"),
    Case(
        "100,000 classes", "a.csv", _HEADER + "".join(f"t{n // 3},w{n % 3},c{n}\n" for n in range(100_000)), says="GB"
    ),
    # encodings
    Case("latin-1", "a.csv", GOOD.replace("w1", "wé").encode("latin-1"), says="--encoding latin-1"),
    Case("latin-1, named", "a.csv", GOOD.replace("w1", "wé").encode("latin-1"), _with("--encoding", "latin-1"), 0),
    Case("UTF-16", "a.csv", GOOD.encode("utf-16"), says="--encoding utf-16"),
    Case("UTF-16, named", "a.csv", GOOD.encode("utf-16"), _with("--encoding", "utf-16"), 0),
    Case("UTF-32", "a.csv", GOOD.encode("utf-32"), says="--encoding utf-32"),
    Case("unknown encoding", "a.csv", GOOD, _with("--encoding", "klingon"), says="klingon"),
    # what is not a file
    Case("a pipe", "pipe.csv", os.mkfifo, says="is a pipe"),
    Case("/dev/zero", "/dev/zero", "", says="is a device"),
    Case("/dev/null", "/dev/null", "", says="is a device"),
    Case("an empty folder", "folder", Path.mkdir, says="folder"),
    Case("a link to itself", "a.csv", lambda path: path.symlink_to(path), says="a.csv"),
    # JSON
    Case("JSON Lines", "a.jsonl", _LINES, status=0),
    Case("cut JSON Lines", "a.jsonl", _LINES[:-9], says="row 150|JSON"),
    Case("null lines", "a.jsonl", _LINES + "null\n", says="row 151"),
    Case("mixed types", "a.jsonl", _LINES + '{"task": 1, "worker": 2, "label": 3}\n', says="mixes types"),
    Case("deep JSON Lines", "a.jsonl", f'{{"task": 1, "worker": 2, "label": {_NESTED}}}\n', says="levels deep"),
    Case("deep objects", "a.jsonl", '{"a":' * 20_000 + "1" + "}" * 20_000, says="levels deep|nested"),
    Case("deep JSON", "a.json", f'[{{"task": 1, "worker": 2, "label": {_NESTED}}}]', says="levels deep"),
    Case("cut JSON", "a.json", "[" + ",".join(_LINES.split("\n")[:5]), says="not JSON"),
    Case("numbers of 9,999 digits", "a.json", f'[{{"task": {"9" * 9999}}}]', says="number"),
    # exports
    Case("Label Studio", "a.json", _tasks({}), status=0),
    Case("annotations are no list", "a.json", _tasks({"annotations": {"a": 1}}), says="not a list of objects"),
    Case("first task has no data", "a.json", _tasks({"data": None}), status=0),
    Case("first task has no annotations", "a.json", _tasks({"annotations": None}), status=0),
    # packed and binary files
    Case("gzip", "a.csv.gz", gzip.compress(GOOD.encode()), status=0),
    Case("cut gzip", "a.csv.gz", gzip.compress(GOOD.encode())[:-20], says="damaged|cut|breaks off"),
    Case("not gzip", "a.csv.gz", GOOD, says="damaged|gzip"),
    Case("bomb", "a.csv.gz", _BOMB, _with(*_LIMIT), says="expands to more than 0.001 GB.*--max-bytes"),
    Case("bomb, allowed", "a.csv.gz", _BOMB, _with("--max-bytes", "1GB"), 0, "repeat"),
    Case("bomb of JSON Lines", "a.jsonl.gz", gzip.compress(_LINES.encode() * 200), _with(*_LIMIT), says="--max-bytes"),
    Case("Parquet", "a.parquet", _parquet, status=0),
    Case("cut Parquet", "a.parquet", _cut_parquet, says="Parquet|parquet"),
    Case("text as Parquet", "a.parquet", GOOD, says="Parquet|parquet"),
    Case("swapped bytes", "a.npy", _array(np.arange(60).reshape(20, 3) % 3, ">i4"), status=0),
    Case("cut array", "a.npy", _array(np.arange(60).reshape(20, 3) % 3, "i4")[:-9], says="npy"),
    Case("text as zip", "a.zip", b"PK\x03\x04" + GOOD.encode(), says="zip"),
    # options
    Case("negative seed", "a.csv", GOOD, _with("--seed", "-1"), 2, "--seed"),
    Case("huge seed", "a.csv", GOOD, _with("--seed", str(2**40)), 2, "--seed"),
    Case("unknown method", "a.csv", GOOD, ("aggregate", "{}", "--method", "magic"), 2, "magic"),
    Case("unknown engine", "a.csv", GOOD, _with("--engine", "steam"), 2, "steam"),
    Case("unknown format", "a.csv", GOOD, _with("--format", "xls"), 2, "xls"),
    Case("unknown column", "a.csv", GOOD, _with("--item", "nothing"), says="nothing"),
    Case("negative tolerance", "a.csv", GOOD, _with("--tol", "-1"), 2, "tol"),
    Case("tolerance nan", "a.csv", GOOD, _with("--tol", "nan"), 2, "tol"),
    Case("negative smoothing", "a.csv", GOOD, _with("--smoothing", "-1"), 2, "smoothing"),
    Case("negative passes", "a.csv", GOOD, _with("--max-iter", "-1"), 2, "max_iter"),
    Case("size without meaning", "a.csv", GOOD, _with("--max-bytes", "lots"), 2, "max_bytes"),
    Case("memory without meaning", "a.csv", GOOD, _with("--engine", "stream", "--memory", "lots"), 2, "memory"),
    Case("scheduler without Dask", "a.csv", GOOD, _with("--scheduler", "tcp://x:1"), 2, "--engine dask"),
    Case("scheduler of no scheme", "a.csv", GOOD, _with(*_NOWHERE), 2, "address"),
    Case("scheduler of no scheme, auto", "a.csv", GOOD, ("aggregate", "{}", *_NOWHERE), 2, "address"),
    Case("truth of nothing", "a.csv", "task,label\nzzz,a\n", ("aggregate", "{good}", "--truth", "{}"), says="truth"),
    Case(
        "gold of another class",
        "a.csv",
        "task,label\nt1,zebra\n",
        ("aggregate", "{good}", "--gold", "{}"),
        says="zebra",
    ),
    Case("out is a file", "a.csv", GOOD, _with("--out", "{}"), says="not a folder"),
    Case("out below a file", "a.csv", GOOD, _with("--out", "{}/run"), says="a.csv"),
    # comparisons
    Case("comparisons", "a.csv", _PAIRS, _rank("--out", "{folder}/run"), 0),
    Case("no comparisons", "a.csv", "left,right,worker,winner\n", _rank(), says="no comparisons"),
    Case("unknown winner", "a.csv", _PAIRS + "a,b,j0,zebra\n", _rank(), says="zebra"),
    Case("an item against itself", "a.csv", "left,right,worker,winner\na,a,j,left\n", _rank(), says="with itself"),
    Case("groups without comparison", "a.csv", _PAIRS + "x,y,j0,left\n", _rank(), 0, "2 groups"),
    Case("one column for both sides", "a.csv", _PAIRS, _rank("--left", "right"), says="is the left column"),
    Case("two winner columns", "a.csv", _PAIRS.replace("worker", "winner"), _rank(), says="rename all"),
    Case("length of one side", "a.csv", _PAIRS.replace("worker", "left_length"), _rank(), 0, "no counterpart"),
    Case("huge spread", "a.csv", _PAIRS, _rank("--spread", "1e300"), 2, "spread"),
    Case("tiny spread", "a.csv", _PAIRS, _rank("--spread", "1e-300"), 2, "spread"),
    Case("comparisons from a device", "/dev/zero", "", _rank(), says="is a device"),
    # estimates and audits
    Case("estimate", "a.csv", _GOLD, _estimate("--of", "a", "--gold", "{}"), 0),
    Case("estimate of nothing", "a.csv", _GOLD, _estimate("--gold", "{}"), 2, "say what to estimate"),
    Case("estimate of inf", "a.csv", GOOD, _estimate("--of", "a=inf", "--of", "b=0", "--of", "c=1"), 2, "finite"),
    Case("mean with inf", "a.csv", _HEADER + "t,w,1\nt,v,inf\n", ("estimate", "{}"), 2, "say what to estimate"),
    Case(
        "gold nobody used", "a.csv", _GOLD + "t25,z\n", _estimate("--of", "a", "--gold", "{}"), 0, "no annotator used"
    ),
    Case("too few answers", "a.csv", "task,label\nt1,a\n", _estimate("--of", "a", "--gold", "{}"), 1, "too few"),
    Case(
        "sample to no folder", "a.csv", _GOLD, _estimate("--of", "a", "--sample", "12", "--out", "{}/x"), says="a.csv"
    ),
    Case("audit", "a.csv", _FIRST, _audit("--order", "{}"), 0),
    Case("audit of one judge", "a.csv", _HEADER + "t,w,a\nu,w,b\n", ("audit", "{}"), 0),
    Case("audit of numbers", "a.csv", _NUMBERS.replace("e305", "5.5"), ("audit", "{}"), says="is for classes"),
    Case("order from a pipe", "pipe.csv", os.mkfifo, _audit("--order", "{}"), says="is a pipe"),
    Case("order of nothing", "a.csv", "", _audit("--order", "{}"), says="empty"),
    Case("two judges of one", "a.csv", "worker,judge\nw0,x\nw0,y\n", _audit("--judges", "{}"), says="two different"),
    Case("no run", "a.csv", GOOD, ("report", "{folder}"), says="not the folder of a run"),
)
