"""The pages of a review over HTTP: one handler for each address, behind :class:`consilience.web.security.Guard`."""

from __future__ import annotations

import getpass
import json
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from consilience.data.names import marked, shown
from consilience.diagnose.agreement import agreement
from consilience.exceptions import ConsilienceError, ParameterError
from consilience.io.writing import WRITABLE
from consilience.web import card, lists, progress
from consilience.web.bulk import accept_sampled, draw_sample
from consilience.web.exports import audit_table, csv_of, gold_table, labels_file
from consilience.web.security import Guard, Keys, form_of
from consilience.web.session import MOST_NAME, MOST_SEEN, Filter, Review
from consilience.web.task_data import MEDIA, file_behind

__all__ = ["application"]

#: The pages by address.
_PAGES = (
    ("/", "Review"),
    ("/items", "Items"),
    ("/annotators", "Annotators"),
    ("/agreement", "Agreement"),
    ("/accept", "Accept"),
    ("/progress", "Progress"),
    ("/export", "Export"),
)
_FORMATS = {
    "csv": "CSV", "parquet": "Parquet", "excel": "Excel", "label-studio": "Label Studio", "argilla": "Argilla",
    "doccano": "doccano", "prodigy": "Prodigy", "mturk": "Mechanical Turk",
}  # fmt: skip
_STATIC = {"review.css": "text/css; charset=utf-8", "review.js": "text/javascript; charset=utf-8"}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("consilience.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"name": marked, "plain": shown}
    return made


def application(review: Review, keys: Keys) -> Guard:
    """Return the ASGI application of a review."""
    site = _Site(review, keys)
    gets: dict[str, Callable[[Request], Response]] = {
        "/": site.queue,
        "/item/{n:int}": site.item,
        "/status": site.status,
        "/items": site.items,
        "/annotators": site.annotators,
        "/annotator/{m:int}": site.annotator,
        "/agreement": site.agreement,
        "/progress": site.progress,
        "/accept": site.accept,
        "/export": site.export,
        "/export/labels": site.export_labels,
        "/export/gold.csv": site.export_gold,
        "/export/audit.csv": site.export_audit,
        "/name": site.name,
        "/media/{n:int}/{at:int}": site.media,
        "/static/{name}": site.static,
        "/open": site.open,
    }
    posts: dict[str, Callable[[Request, dict[str, str]], Response]] = {
        "/decide": site.decide,
        "/act": site.act,
        "/undo": site.undo,
        "/accept/sample": site.draw,
        "/accept/judge": site.judge,
        "/accept": site.accept_all,
        "/target": site.set_target,
        "/name": site.set_name,
        "/invite": site.invite,
    }
    routes = [Route(path, site.answering(handler), methods=["GET"]) for path, handler in gets.items()]
    routes += [Route(path, site.changing(handler), methods=["POST"]) for path, handler in posts.items()]
    app = Starlette(routes=routes, exception_handlers={404: site.not_found})
    return Guard(app, keys, review.store, remote_media=review.remote_media)


class _Site:
    """The handlers, and what they share."""

    def __init__(self, review: Review, keys: Keys) -> None:
        self.review, self.keys = review, keys
        self._agreement: tuple[list[dict[str, str]] | None, str] = (None, "")
        self._measuring = False

    # ---- how handlers are called ------------------------------------------------------------------------

    def answering(self, handler: Callable[[Request], Response]) -> Any:
        """Return the handler of a page: in a thread, with errors in the data as a page that says what to do."""

        async def called(request: Request) -> Response:
            try:
                return await run_in_threadpool(handler, request)
            except (ConsilienceError, ValueError) as error:
                return self._message(request, "That did not work", str(error), 400)

        return called

    def changing(self, handler: Callable[[Request, dict[str, str]], Response]) -> Any:
        """Return the handler of a form; in a read-only review all but the name is refused."""

        async def called(request: Request) -> Response:
            try:
                fields = form_of(await request.body())
                if self.review.read_only and handler != self.set_name:
                    return self._told(request, "The review is read-only: nothing was changed.", 403)
                if not request.state.reviewer and handler != self.set_name:
                    return RedirectResponse("/name", 303)
                return await run_in_threadpool(handler, request, fields)
            except (ConsilienceError, ValueError) as error:
                return self._told(request, str(error), 400)

        return called

    def not_found(self, request: Request, _: Exception) -> Response:
        """Say that there is no such page."""
        return self._message(request, "There is no such page", "Perhaps the address was copied only in part.", 404)

    def _page(self, request: Request, name: str, code: int = 200, **content: Any) -> Response:
        template = _environment().get_template(name)
        reviewer, path = request.state.reviewer, request.url.path
        here = "/annotators" if path.startswith("/annotator") else "/" if path.startswith("/item/") else path
        frame = {"title": shown(self.review.title, 80), "reviewer": reviewer, "pages": _PAGES, "here": here}
        return HTMLResponse(template.render(**frame, read_only=self.review.read_only, **content), code)

    def _message(self, request: Request, heading: str, text: str, status: int) -> Response:
        return self._page(request, "message.html", status, heading=heading, text=text)

    def _told(self, request: Request, text: str, status: int) -> Response:
        if request.headers.get("x-fragment"):
            return JSONResponse({"ok": False, "told": text}, status)
        return self._message(request, "That did not work", text, status)

    # ---- reviewing --------------------------------------------------------------------------------------

    def queue(self, request: Request) -> Response:
        """Show the next item."""
        if not request.state.reviewer:
            return RedirectResponse("/name", 303)
        chosen = Filter.of(request.query_params)
        return self._item_page(request, self.review.next(request.state.reviewer, chosen), chosen)

    def item(self, request: Request) -> Response:
        """Show an item."""
        n = request.path_params["n"]
        if n >= self.review.material.labels.n_items:
            return self._message(
                request,
                "There is no such item",
                f"Items are numbered up to {self.review.material.labels.n_items - 1}.",
                404,
            )
        self.review.hold(n, request.state.reviewer)
        return self._item_page(request, n, Filter.of(request.query_params))

    def _item_page(self, request: Request, n: int | None, chosen: Filter) -> Response:
        return self._page(request, "review.html", **self._desk(n, request.state.reviewer, chosen))

    def _desk(self, n: int | None, reviewer: str, chosen: Filter) -> dict[str, Any]:
        shown_card = None if n is None else card.card(self.review, n, reviewer, chosen)
        return {"card": shown_card, "status": card.status(self.review), "within": bool(chosen.parameters)}

    def _next(self, request: Request, fields: dict[str, str], told: str, n: int | None = None) -> Response:
        """Answer a step with the next item, or with item n again."""
        chosen = Filter.of(dict(parse_qsl(fields.get("within", ""))))
        if not request.headers.get("x-fragment"):
            back = fields.get("back")
            return RedirectResponse(back if back in dict(_PAGES) else "/" if n is None else f"/item/{n}", 303)
        reviewer = request.state.reviewer
        n = self.review.next(reviewer, chosen) if n is None else n
        desk = self._desk(n, reviewer, chosen)
        made = {
            f: _environment().get_template(f"_{f}.html").render(**desk, read_only=False) for f in ("card", "status")
        }
        address = f"/?{fields['within']}" if fields.get("within") else "/"
        return JSONResponse(
            {"ok": True, "told": told, "version": desk["status"]["version"], "address": address, **made}
        )

    def decide(self, request: Request, fields: dict[str, str]) -> Response:
        """Commit a decision; the answer is sent once it is on disk."""
        item, answer = fields.get("item", ""), fields.get("answer", "")
        review, reviewer = self.review, request.state.reviewer
        review.act("decide", reviewer, item, answer, ref=int(fields.get("ref") or 0), seen=_seen(fields))
        told = f"Saved: {shown(item, 32)} is {shown(answer, 32)}."
        if review.ledger.of(item).conflict:
            told += " Another reviewer decided differently: it is now listed as a conflict."
        return self._next(request, fields, told)

    def act(self, request: Request, fields: dict[str, str]) -> Response:
        """Skip an item, mark it for discussion, or add a note."""
        kind, item = fields.get("kind", ""), fields.get("item", "")
        if kind not in ("skip", "discuss", "note"):
            raise ParameterError(f"there is no step {kind[:20]!r}")
        self.review.act(kind, request.state.reviewer, item, note=fields.get("note", ""))
        told = {"skip": "Skipped", "discuss": "To be discussed", "note": "Note saved"}[kind]
        return self._next(
            request, fields, f"{told}: {shown(item, 32)}.", self.review.material.find(item) if kind == "note" else None
        )

    def undo(self, request: Request, fields: dict[str, str]) -> Response:
        """Take back the reviewer's last step, and show its item again."""
        event = self.review.undo(request.state.reviewer)
        if event is None:
            return self._next(request, fields, "There is nothing to undo.")
        what = {"accept": "the acceptance of many labels"}.get(event.kind, f"{event.kind} {shown(event.item, 32)}")
        n = self.review.material.find(event.item) if event.item else None
        return self._next(request, fields, f"Undone: {what}.", None if fields.get("back") else n)

    def status(self, request: Request) -> Response:
        """Return the panel of the consensus, or nothing if it has not changed."""
        found = card.status(self.review)
        if found["version"] == request.query_params.get("version"):
            return Response(status_code=204)
        told = ""
        if found["stage"] == "current" and found["changes"]:
            told = f"Consensus updated: {found['changes']['n_flips']} labels changed, estimated error {found['error']}."
        html = _environment().get_template("_status.html").render(status=found)
        return JSONResponse({"status": html, "version": found["version"], "told": told})

    # ---- lists ------------------------------------------------------------------------------------------

    def items(self, request: Request) -> Response:
        """List items."""
        chosen, page = Filter.of(request.query_params), _page_number(request)
        return self._page(
            request, "items.html", list=lists.items_page(self.review, chosen, request.state.reviewer, page)
        )

    def annotators(self, request: Request) -> Response:
        """List annotators."""
        q = request.query_params.get("q", "")[:200]
        return self._page(request, "annotators.html", list=lists.annotators_page(self.review, _page_number(request), q))

    def annotator(self, request: Request) -> Response:
        """Show the report card of an annotator."""
        m, names = request.path_params["m"], self.review.material.annotators
        if m >= len(names):
            return self._message(request, "There is no such annotator", f"There are {len(names)}.", 404)
        return self._page(request, "annotator.html", a=lists.annotator_page(self.review, m), raw=names[m])

    def agreement(self, request: Request) -> Response:
        """Show how far annotators and reviewers agree; the coefficients are computed once, in the background."""
        if not self._measuring:
            self._measuring = True
            threading.Thread(target=self._measure, daemon=True).start()
        measures, failure = self._agreement
        return self._page(request, "agreement.html", measures=measures, failure=failure, pairs=lists.pairs(self.review))

    def _measure(self) -> None:
        try:
            self._agreement = lists.measures(agreement(self.review.material.labels)), ""
        except ConsilienceError as error:
            self._agreement = [], str(error)

    def progress(self, request: Request) -> Response:
        """Show how far the review is."""
        target = f"{100 * self.review.target:.3g}"
        return self._page(
            request,
            "progress.html",
            status=card.status(self.review),
            p=progress.progress_page(self.review),
            target=target,
        )

    def set_target(self, request: Request, fields: dict[str, str]) -> Response:
        """Set the share of wrong labels to reach."""
        value = float(fields.get("target", ""))
        if not 0.0 <= value <= 100.0:
            raise ParameterError("the target is a percentage from 0 to 100")
        self.review.store.set("target", repr(value / 100.0))
        return RedirectResponse("/progress", 303)

    # ---- accepting many labels --------------------------------------------------------------------------

    def accept(self, request: Request) -> Response:
        """Show how many labels could be accepted, and the sample."""
        threshold = _share(request.query_params.get("threshold", "95"))
        content = progress.accept_page(self.review, request.state.reviewer, threshold)
        return self._page(request, "accept.html", a=content, status=card.status(self.review))

    def draw(self, request: Request, fields: dict[str, str]) -> Response:
        """Draw a sample."""
        draw_sample(self.review, request.state.reviewer, _share(fields.get("threshold", "")))
        return RedirectResponse(f"/accept?threshold={_share(fields.get('threshold', '')) * 100:g}", 303)

    def judge(self, request: Request, fields: dict[str, str]) -> Response:
        """Decide on a label of the sample."""
        answer = fields.get("answer") or fields.get("instead") or ""
        item = fields.get("item", "")
        ref = self.review.ledger.of(item).newest
        self.review.act("decide", request.state.reviewer, item, answer, ref=ref, seen={"sample": True})
        return RedirectResponse("/accept", 303)

    def accept_all(self, request: Request, fields: dict[str, str]) -> Response:
        """Accept the labels that the sample stands for."""
        accept_sampled(self.review, request.state.reviewer)
        return RedirectResponse("/accept", 303)

    # ---- files ------------------------------------------------------------------------------------------

    def export(self, request: Request) -> Response:
        """Show what can be exported."""
        formats = [(name, _FORMATS[name]) for name in WRITABLE]
        return self._page(request, "export.html", formats=formats, store=self.review.store.path.name, invited="")

    def invite(self, request: Request, fields: dict[str, str]) -> Response:
        """Show an address for one more browser."""
        address = f"http://{request.headers['host']}/open?token={self.keys.invite()}"
        formats = [(name, _FORMATS[name]) for name in WRITABLE]
        return self._page(request, "export.html", formats=formats, store=self.review.store.path.name, invited=address)

    def export_labels(self, request: Request) -> Response:
        """Send the final labels."""
        return _file(*labels_file(self.review, request.query_params.get("format", "csv")))

    def export_gold(self, request: Request) -> Response:
        """Send the decisions as known answers."""
        return _file("gold.csv", csv_of(gold_table(self.review)))

    def export_audit(self, request: Request) -> Response:
        """Send the audit log."""
        return _file("audit.csv", csv_of(audit_table(self.review), spreadsheet="spreadsheet" in request.query_params))

    def media(self, request: Request) -> Response:
        """Send an image or a sound of an item; the address has numbers only, so that no path comes from outside."""
        place = file_behind(self.review.tasks, request.path_params["n"], request.path_params["at"])
        if place is None:
            return self._message(
                request, "There is no such file", "It is missing, or not below the folder of the task data.", 404
            )
        return FileResponse(place, media_type=MEDIA[place.suffix.lower()])

    def static(self, request: Request) -> Response:
        """Send the style sheet or the script."""
        name = request.path_params["name"]
        if name not in _STATIC:
            return Response("There is no such file.\n", 404)
        content = (Path(__file__).parent / "static" / name).read_bytes()
        return Response(content, media_type=_STATIC[name], headers={"cache-control": "no-cache"})

    # ---- who --------------------------------------------------------------------------------------------

    def open(self, request: Request) -> Response:
        """Exchange a token for a cookie; a page, not a redirect, so that the browser sends the cookie on."""
        secret = self.keys.exchange(request.query_params.get("token", ""))
        if secret is None:
            if self.review.store.session(request.state.secret) is not None:
                return RedirectResponse("/", 303)
            return Response(
                "This address was used before, or is wrong; it works once. For another browser, make a new one on the "
                "page Export, or start the command again.\n",
                403,
            )
        return HTMLResponse(
            _environment().get_template("open.html").render(), headers={"set-cookie": self.keys.set_cookie(secret)}
        )

    def name(self, request: Request) -> Response:
        """Ask for the reviewer's name."""
        return self._page(request, "name.html", suggested=request.state.reviewer or _user())

    def set_name(self, request: Request, fields: dict[str, str]) -> Response:
        """Keep the reviewer's name."""
        name = " ".join(fields.get("name", "").split())
        if not name or len(name) > MOST_NAME:
            raise ParameterError(f"a name has 1 to {MOST_NAME} characters")
        self.review.store.name_session(request.state.secret, name)
        return RedirectResponse("/", 303)


def _seen(fields: dict[str, str]) -> Any:
    """Return what was on screen, as the page had it."""
    text = fields.get("seen", "")
    if len(text) > MOST_SEEN:
        raise ParameterError("the record of what was on screen is too long")
    return json.loads(text) if text else None


def _page_number(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return int(text) if text.isdecimal() and len(text) < 10 else 1


def _share(text: str) -> float:
    value = float(text) / 100.0
    if not 0.0 <= value <= 1.0:
        raise ParameterError("a confidence is a percentage from 0 to 100")
    return value


def _file(name: str, content: bytes) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
