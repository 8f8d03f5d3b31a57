"""Starting a review: read labels or a run, open the store, and serve the pages until somebody stops it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from consilience.api import aggregate
from consilience.data.annotations import Annotations
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import DataError, ParameterError
from consilience.io import load, read, read_truth
from consilience.io.formats import EXPORTS, recognise
from consilience.io.sequences import read_sequence_truth, read_sequences
from consilience.runs.consensus import SUMMARY, Consensus
from consilience.web.material import Material
from consilience.web.session import Review
from consilience.web.store import Store
from consilience.web.task_data import TaskData, read_task_data

__all__ = ["open_review", "review", "serve"]

#: What of a saved run decides how it is fitted again.
_SETTINGS = ("answers", "silence")


def review(
    labels: Any,
    method: str = "auto",
    *,
    port: int = 0,
    task_data: str | os.PathLike[str] | None = None,
    decisions: str | os.PathLike[str] | None = None,
    browser: bool = True,
    read_only: bool = False,
    remote_media: bool = False,
    gold: Any = None,
    reading: Mapping[str, Any] | None = None,
    announce: Callable[[str], object] = print,
    **parameters: Any,
) -> None:
    """Open a page on this machine where people decide doubtful items, and serve it until it is interrupted.

    Needs the extra ``web``.

    Parameters
    ----------
    labels
        The path of a file that :func:`consilience.read` reads, the folder of a run, annotations, or a run.
    method
        The method of :func:`consilience.aggregate`; a run keeps its own.
    port
        Port to listen on; 0 takes a free one.
    task_data
        A file with what items show: a table or JSON records, with a field that holds ids of items.  By default what
        the export of a tool holds.
    decisions
        The SQLite file that decisions are kept in; by default beside the labels, with the ending ``.review.db``.
    browser
        Open the address in a browser.
    read_only
        Show everything, change nothing.
    remote_media
        Show images and sounds from the web, which tells other servers what is looked at; by default they are links.
    gold
        Answers known before the review: a file, or a frame with the item and the label.
    reading
        Options of :func:`consilience.read`, such as ``question``; with ``sequence`` or ``position``, those of
        :func:`consilience.read_sequences`.
    announce
        Called with the address, whose token works once.
    **parameters
        Those of :func:`consilience.aggregate`, such as ``answers`` and ``seed``.
    """
    made = open_review(
        labels, method, task_data=task_data, decisions=decisions, read_only=read_only, remote_media=remote_media,
        gold=gold, reading=reading, **parameters,
    )  # fmt: skip
    serve(made, port=port, browser=browser, announce=announce)


def open_review(
    labels: Any,
    method: str = "auto",
    *,
    task_data: str | os.PathLike[str] | None = None,
    decisions: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    remote_media: bool = False,
    gold: Any = None,
    reading: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Review:
    """Return the review without serving it; the parameters are those of :func:`review`."""
    options = dict(reading or {})
    source, run, data = None, None, labels
    if isinstance(labels, str | os.PathLike):
        source = Path(labels)
        in_order = bool(options.get("sequence") or options.get("position"))
        reader = load if source.is_dir() and (source / SUMMARY).is_file() else read_sequences if in_order else read
        data = reader(source, **({} if reader is load else options))
    if isinstance(data, Consensus):
        run = data
        data = getattr(run, "sequences", run.annotations)
        if data is None:
            raise DataError("this run was saved without its labels; review the file of labels instead")
        method = str(run.run.get("method", method))
        parameters = {name: run.run[name] for name in _SETTINGS if run.run.get(name)} | parameters
    if not isinstance(data, Annotations | SequenceAnnotations):
        raise ParameterError(f"a review is of a file of labels, annotations or a run, not of {type(labels).__name__}")
    if gold is not None:
        if isinstance(gold, str | os.PathLike):
            encoding = options.get("encoding", "utf-8")
            if isinstance(data, SequenceAnnotations):
                gold = read_sequence_truth(gold, like=data, encoding=encoding)
            else:
                gold = read_truth(gold, like=data, encoding=encoding)
        data, run = data.with_gold(gold), None
    material = Material(data)
    if decisions is None:
        if source is None:
            raise ParameterError("name the file to keep decisions in with decisions=…")
        question = f".{options['question']}" if options.get("question") else ""
        decisions = source.with_name(f"{source.name}{question.replace('/', '-')}.review.db")
    tasks = _tasks(task_data, source if run is None else None, material)
    origin = material.labels.origin
    title = ": ".join(filter(None, (source.name if source is not None else "", origin.question))) or "Review"

    def fit(known: Any) -> Consensus:
        return aggregate(data, method, gold=known, **parameters)

    return Review(
        material,
        Store(decisions, read_only=read_only),
        fit,
        run=run,
        tasks=tasks,
        title=title,
        source=source if run is None else None,
        question=options.get("question"),
        remote_media=remote_media,
    )


def _tasks(given: str | os.PathLike[str] | None, source: Path | None, material: Material) -> TaskData:
    """Return what items show: from a file of its own, or from the export of a tool."""
    if given is not None:
        return read_task_data(given, material)
    if source is None or not source.is_file() or material.sequences is not None:
        return TaskData()
    return read_task_data(source, material, required=False) if recognise(source).name in EXPORTS else TaskData()


def serve(made: Review, *, port: int = 0, browser: bool = False, announce: Callable[[str], object] = print) -> None:
    """Serve a review on the loopback interface until it is interrupted."""
    try:
        import uvicorn

        from consilience.web.security import Keys
        from consilience.web.server import application
    except ImportError as error:
        raise ParameterError(
            f"a review needs {error.name}, which is not installed: pip install 'consilience[web]'"
        ) from error
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise ParameterError(
                f"port {port} cannot be used ({error.strerror}); choose another with port=… (--port)"
            ) from error
        listening.listen(128)
        number = listening.getsockname()[1]
        keys = Keys(made.store, number)
        address = f"http://127.0.0.1:{number}/open?token={keys.invite()}"
        # requests wait for the fit in the background to let go of the interpreter: rather often than long
        sys.setswitchinterval(0.001)
        made.live.start()
        threading.Thread(target=lambda: made.searchable, daemon=True).start()
        announce(address)
        if browser:
            threading.Timer(0.3, webbrowser.open, (address,)).start()
        config = uvicorn.Config(
            application(made, keys), log_level="warning", access_log=False, server_header=False, lifespan="off",
            limit_concurrency=200, proxy_headers=False, timeout_graceful_shutdown=2, ws="none",
        )  # fmt: skip
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            made.live.stop()
            made.store.close()
