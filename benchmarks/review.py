"""``consilience review``: how many decisions halve the error, how fast pages and decisions are, and what a kill loses.

Replay: the truth of the most valuable item is revealed and the consensus updated to first order; after every hundredth
of the items, everything is fitted again with all revealed truths as known answers.  The error counts all items with a
truth, revealed ones as right.  Next to it: the same with one random check in ten, the same with the smallest margin
first, and the smallest margins of the first fit without fitting again, which is what a list of doubtful items gives.
What decisions can teach at best: the smallest confidence first, of a model that knows four fifths of all truths.

Latency: decisions are posted to a server of 10^5 items and 10^6 labels, also while it fits; pages are fetched from one
of 10^6 items.  Kills: decisions are posted as fast as they are answered, and the server is killed at a random moment;
every answered decision must be there after a restart.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.csv

import consilience as cs
from benchmarks.breaking import print_table
from benchmarks.figures import Figure
from benchmarks.public import crowd, skipped
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Codes
from consilience.runs.consensus import Consensus
from consilience.web.checks import EVERY, Checks
from consilience.web.learning import LabelsByAnnotator, beliefs_of, decided
from consilience.web.ledger import Ledger
from consilience.web.live import error_of
from consilience.web.queue import CANDIDATES, direct, teaching
from consilience.web.snapshot import Error
from consilience.web.store import Store

EIGHT = ("bluebird", "rte", "dog52", "labelme", "trec", "sentence_polarity", "adult2", "music")
FIVE = ("bluebird", "dog52", "rte", "trec", "labelme")
ORDERS = ("value", "value, with checks", "margin", "margin, fitted once")
#: Share of the items that are revealed at most.
MOST = 0.6
KILLS = 30
#: Fits while all items are decided.
FITS = (100, 50, 33)


def run() -> list[Figure]:
    return [*latency(), *pages(), *kills(KILLS), *replay(), *moments(), *stated()]


# ---- replay ------------------------------------------------------------------------------------------------------


def replay() -> list[Figure]:
    if skipped():
        return []
    figures, rows = [], []
    for name in FIVE:
        needed = {order: decisions(name, order) for order in ORDERS}
        bound = taught_fully(*with_truth(name))
        rows.append([name, *(str(n) for n in needed.values()), str(bound)])
        print(f"{name}: {needed}, taught fully {bound}", flush=True)
        for other, target in (("margin", 0.7), ("margin, fitted once", None)):
            ratio = needed["value"] / needed[other]
            figures.append(Figure(f"decisions that halve the error, {name}: value / {other}", ratio, target))
        figures.append(Figure(f"the same, {name}: taught fully / margin", bound / needed["margin"]))
    print_table("Decisions that halve the error", ["", *ORDERS, "taught fully"], rows)
    return figures


def with_truth(name: str, most: int | None = None) -> tuple[Annotations, Codes]:
    """Return the items of a crowd whose truth is known, or the first of them."""
    on = crowd(name)
    kept = np.flatnonzero((on.truth >= 0) & (on.truth < on.annotations.n_classes))[:most]
    return on.annotations.select_items(kept), on.truth[kept]


def moments() -> list[Figure]:
    """Compare orders with fits at other moments: what differs by chance says how much of a difference means nothing."""
    if skipped():
        return []
    figures = []
    for order in ("value", "margin"):
        needed = [decisions("labelme", order, fits) for fits in FITS]
        print(f"labelme by {order}, fitted {FITS} times: {needed}", flush=True)
        spread = max(needed) / min(needed) - 1.0
        figures.append(Figure(f"labelme by {order}: most over fewest decisions, by moment of the fits", spread))
    return figures


def decisions(name: str, order: str, fits: int = FITS[0]) -> int:
    """Return the number of decisions that halve the error, interpolated between the last two fits."""
    a, truth = with_truth(name)
    known = np.full(truth.size, -1)
    step, rng = max(truth.size // fits, 1), np.random.default_rng(0) if order.endswith("checks") else None
    found = fitted(a, known)
    first = int((found.choice.best != truth).sum())
    before, done = first, 0
    while done < MOST * truth.size:
        if order.startswith("value"):
            reveal(a, found, known, truth, step, rng)
        else:
            chosen = np.argsort(np.where(known < 0, found.choice.margin, np.inf), kind="stable")[:step]
            known[chosen] = truth[chosen]
        if order != "margin, fitted once":
            found = fitted(a, known)
        wrong = int((np.where(known >= 0, known, found.choice.best) != truth).sum())
        if wrong <= first / 2:
            return done + int(np.ceil(step * (before - first / 2) / (before - wrong)))
        before, done = wrong, done + step
    return done


def fitted(a: Annotations, known: Codes) -> Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        at = np.flatnonzero(known >= 0)
        return cs.aggregate(a, gold=dict(zip(a.items[at], a.classes[known[at]], strict=True)) if at.size else None)


def reveal(
    a: Annotations, found: Consensus, known: Codes, truth: Codes, step: int, rng: np.random.Generator | None = None
) -> list[tuple[bool, float]]:
    """Decide items as the queue of a review offers them: updated to first order after every decision.

    With ``rng``, one in ten is drawn at random; returns whether the label of these was wrong, and its confidence.
    """
    by, now = LabelsByAnnotator.of(a), beliefs_of(a, found.posterior.copy(), found.counts.copy(), "auto")
    taught, checks = np.zeros(truth.size), []
    some = np.argsort(np.where(known < 0, -direct(now.posterior), np.inf), kind="stable")[:CANDIDATES]
    taught[some] = teaching(a, by, now, some)
    for _ in range(step):
        if rng is not None and (int((known >= 0).sum()) + 1) % EVERY == 0:
            n = int(rng.choice(np.flatnonzero(known < 0)))
            checks.append((bool(now.posterior[n].argmax() != truth[n]), float(now.posterior[n].max())))
        else:
            n = int(np.argmax(np.where(known < 0, direct(now.posterior) + taught, -np.inf)))
        known[n] = truth[n]
        decided(a, by, now, n, int(truth[n]), np.flatnonzero(known >= 0))
    return checks


def taught_fully(a: Annotations, truth: Codes) -> int:
    """Return how many decisions halve the error if the model knows the truth of four fifths of the items, for nothing.

    Every fifth is labelled with the help of the other four; the smallest confidence is decided first.  This shows
    what decisions can teach the model, whatever their order; it is no strict bound.
    """
    first = int((fitted(a, np.full(truth.size, -1)).choice.best != truth).sum())
    part = np.random.default_rng(0).permutation(truth.size) % 5
    posterior = np.empty((truth.size, a.n_classes))
    for fold in range(5):
        here = part == fold
        posterior[here] = fitted(a, np.where(here, -1, truth)).posterior[here]
    wrong = (posterior.argmax(axis=1) != truth)[np.argsort(posterior.max(axis=1), kind="stable")]
    left = wrong.sum() - np.concatenate([[0], np.cumsum(wrong)])
    return int(np.argmax(left <= first / 2))


def stated() -> list[Figure]:
    """Compare the stated error with the true one, while a fifth of the items is decided, one in ten random."""
    if skipped():
        return []
    inside, alone, cases = 0, 0, 0
    for name in EIGHT:
        a, truth = with_truth(name, 1500 if name in ("sentence_polarity", "adult2") else None)
        known, checks, rng = np.full(truth.size, -1), [], np.random.default_rng(0)
        found = fitted(a, known)
        for share in (0.05, 0.1, 0.15, 0.2):
            checks += reveal(a, found, known, truth, int(share * truth.size) - int((known >= 0).sum()), rng)
            found = fitted(a, known)
            wrong, settled = direct(found.posterior), known >= 0
            doubt = 1.0 - float(np.mean([confidence for _, confidence in checks])) if checks else None
            with_checks = error_of(found, wrong, settled, Checks(len(checks), sum(w for w, _ in checks), doubt))
            without = error_of(found, wrong, settled)
            true = float((found.choice.best != truth)[known < 0].sum() / truth.size)
            inside += with_checks.low <= true <= with_checks.high
            alone += without.low <= true <= without.high
            cases += 1
            print(f"{name}, {share:.0%} decided: true {true:.3f}, {said(with_checks)}, without checks {said(without)}")
    return [
        Figure(f"stated intervals that hold the true error, of {cases}", inside, 0.9 * cases, up=True),
        Figure(f"the same without random checks, of {cases}", alone, up=True),
    ]


def said(error: Error) -> str:
    return f"stated {error.value:.3f} ({error.low:.3f} to {error.high:.3f})"


# ---- a server and a browser that counts ----------------------------------------------------------------------------


class Browser:
    """A connection to a review, with its cookie."""

    def __init__(self, line: str) -> None:
        found = re.search(r"http://(127\.0\.0\.1:(\d+))(/open\S+)", line)
        assert found, line
        self.host, self.headers = found[1], {"Host": found[1], "Origin": f"http://{found[1]}"}
        self.connection = http.client.HTTPConnection("127.0.0.1", int(found[2]), timeout=120)
        self.connection.request("GET", found[3], headers=self.headers)
        answer = self.connection.getresponse()
        answer.read()
        self.headers["Cookie"] = str(answer.getheader("set-cookie")).split(";")[0]
        self.post("/name", {"name": "Ada"})

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page."""
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def post(self, path: str, fields: dict[str, str]) -> int:
        """Send a form as the script of the page does, and return the status."""
        form = {**self.headers, "Content-Type": "application/x-www-form-urlencoded", "X-Fragment": "1"}
        self.connection.request("POST", path, urlencode(fields), form)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


@contextmanager
def serving(labels: Path, *options: str) -> Iterator[tuple[Browser, subprocess.Popen[str]]]:
    """Start the command line, and end it."""
    command = [sys.executable, "-m", "consilience", "review", str(labels), "--no-browser", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Browser(process.stdout.readline()), process
    finally:
        process.kill()
        process.wait()


def written(folder: Path, n_items: int, per_item: int) -> Path:
    """Write the labels of a simulated crowd."""
    labels = cs.simulate(n_items, 500, 4, labels_per_item=per_item, seed=0).annotations
    frame = labels.to_frame("pyarrow")
    path = folder / f"labels{n_items}.csv"
    pyarrow.csv.write_csv(pa.table({name: frame[name] for name in frame.column_names}), path)
    return path


def milliseconds(browser: Browser, path: str, fields: dict[str, str] | None = None) -> float:
    begun = time.perf_counter()
    status = browser.get(path)[0] if fields is None else browser.post(path, fields)
    assert status == 200, (path, status)
    return 1000.0 * (time.perf_counter() - begun)


def ready(browser: Browser, seconds: float = 600.0) -> float:
    """Wait for the first fit; return the seconds that it took."""
    begun = time.perf_counter()
    while "Up to date" not in browser.get("/status?version=")[1]:
        assert time.perf_counter() - begun < seconds, "the first fit takes too long"
        time.sleep(0.5)
    return time.perf_counter() - begun


def latency() -> list[Figure]:
    """Time decisions, before, during and after fits; the slowest counts as well as the median."""
    with tempfile.TemporaryDirectory() as folder:
        labels = written(Path(folder), 100_000, 10)
        with serving(labels) as (browser, _):
            first = [milliseconds(browser, "/decide", {"item": str(n), "answer": "0"}) for n in range(100)]
            seconds = ready(browser)
            later, file, disk = [], [], []
            alone = Store(Path(folder, "alone.db"))
            for n in range(200, 400):  # fits begin and end meanwhile
                later.append(milliseconds(browser, "/decide", {"item": str(n), "answer": "1"}))
                file.append(milliseconds(browser, "/static/review.css"))
                begun = time.perf_counter()
                alone.append("decide", "Ada", str(n), "1")
                disk.append(1000.0 * (time.perf_counter() - begun))
                time.sleep(0.05)
            alone.close()
    print(f"first fit of 10^6 labels: {seconds:.0f} s after the first hundred decisions", flush=True)
    return [
        Figure("decision at 10^6 labels, during the first fit: median", float(np.median(first)), 100, unit="ms"),
        Figure("decision at 10^6 labels, during the first fit: slowest of 100", max(first), unit="ms"),
        Figure("decision at 10^6 labels, later: median", float(np.median(later)), 100, unit="ms"),
        Figure("decision at 10^6 labels, later: 99th percentile", float(np.quantile(later, 0.99)), 100, unit="ms"),
        Figure("decision at 10^6 labels, later: slowest of 200", max(later), unit="ms"),
        Figure("the style sheet meanwhile: 99th percentile", float(np.quantile(file, 0.99)), unit="ms"),
        Figure("a bare commit meanwhile: 99th percentile", float(np.quantile(disk, 0.99)), unit="ms"),
    ]


def pages() -> list[Figure]:
    """Time the pages of a million items: the second request of each, once the first fit is done."""
    addresses = {
        "review": "/",
        "items": "/items",
        "items, page 10,000": "/items?page=10000",
        "items, filtered": "/items?annotator=a7&label=2&low=50&high=90",
        "items, search": "/items?q=99999",
        "annotators": "/annotators",
        "annotator": "/annotator/3",
        "progress": "/progress",
        "accept": "/accept?threshold=90",
    }
    with tempfile.TemporaryDirectory() as folder:
        labels = written(Path(folder), 1_000_000, 3)
        with serving(labels, "--method", "ds-em") as (browser, _):
            ready(browser)
            for n in range(20):
                browser.post("/decide", {"item": str(n), "answer": "0"})
            ready(browser)
            timed = {name: [milliseconds(browser, path) for _ in range(5)] for name, path in addresses.items()}
    figures = [Figure(f"page at 10^6 items: {name}", float(np.median(t)), 200, unit="ms") for name, t in timed.items()]
    return [*figures, Figure("page at 10^6 items: first search", timed["items, search"][0], unit="ms")]


def kills(times: int) -> list[Figure]:
    """Kill the server at random moments while it answers; count answered decisions that are missing afterwards."""
    rng, missing, answered = np.random.default_rng(0), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        labels = written(Path(folder), 2000, 5)
        acknowledged: dict[str, str] = {}
        for _ in range(times):
            with serving(labels, "--method", "majority") as (browser, process):
                moment = float(rng.uniform(0.05, 3.0))
                timer = threading.Timer(moment, os.kill, (process.pid, signal.SIGKILL))
                timer.start()
                item = ""
                try:
                    while True:
                        item, answer = str(rng.integers(2000)), str(rng.integers(4))
                        if browser.post("/decide", {"item": item, "answer": answer, "ref": "999999"}) == 200:
                            acknowledged[item] = answer
                            answered += 1
                except (http.client.HTTPException, OSError):
                    acknowledged.pop(item, None)  # the last decision may be kept although nobody heard of it
                    timer.join()
            store = Store(labels.with_name(f"{labels.name}.review.db"))
            found = Ledger(store).answers()
            missing += sum(found.get(item) != answer for item, answer in acknowledged.items())
            store.close()
    print(f"{answered} decisions were answered before {times} kills", flush=True)
    return [Figure(f"answered decisions missing after {times} kills", missing, 0)]
