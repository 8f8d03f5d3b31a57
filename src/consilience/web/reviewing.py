"""Handlers of the page where items are decided, and of who decides them."""

from __future__ import annotations

import getpass
import json
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from consilience.data.names import shown
from consilience.exceptions import ParameterError
from consilience.web import card
from consilience.web.filters import Filter
from consilience.web.session import MOST_NAME, MOST_SEEN
from consilience.web.site import PAGES, Site, templates

__all__ = ["Reviewing"]


class Reviewing(Site):
    """One item after the other."""

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
            return self.message(
                request,
                "There is no such item",
                f"Items are numbered up to {self.review.material.labels.n_items - 1}.",
                404,
            )
        self.review.hold(n, request.state.reviewer)
        return self._item_page(request, n, Filter.of(request.query_params))

    def _item_page(self, request: Request, n: int | None, chosen: Filter) -> Response:
        return self.page(request, "review.html", **self._desk(n, request.state.reviewer, chosen))

    def _desk(self, n: int | None, reviewer: str, chosen: Filter) -> dict[str, Any]:
        shown_card = None if n is None else card.card(self.review, n, reviewer, chosen)
        return {"card": shown_card, "status": card.status(self.review), "within": bool(chosen.parameters)}

    def _next(self, request: Request, fields: dict[str, str], told: str, n: int | None = None) -> Response:
        """Answer a step with the next item, or with item n again."""
        chosen = Filter.of(dict(parse_qsl(fields.get("within", ""))))
        if not request.headers.get("x-fragment"):
            back = fields.get("back")
            return RedirectResponse(back if back in dict(PAGES) else "/" if n is None else f"/item/{n}", 303)
        reviewer = request.state.reviewer
        n = self.review.next(reviewer, chosen) if n is None else n
        desk = self._desk(n, reviewer, chosen)
        made = {f: templates().get_template(f"_{f}.html").render(**desk, read_only=False) for f in ("card", "status")}
        address = f"/?{fields['within']}" if fields.get("within") else "/"
        return JSONResponse(
            {"ok": True, "told": told, "version": desk["status"]["version"], "address": address, **made}
        )

    def decide(self, request: Request, fields: dict[str, str]) -> Response:
        """Commit a decision; the answer is sent once it is on disk."""
        item, answer = fields.get("item", ""), fields.get("answer", "")
        review, reviewer = self.review, request.state.reviewer
        ref = fields.get("ref") or "0"
        if not (ref.isdecimal() and len(ref) < 19):  # as SQLite holds it
            raise ParameterError("the decision does not say which event was on screen")
        review.act("decide", reviewer, item, answer, ref=int(ref), seen=_seen(fields))
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
        html = templates().get_template("_status.html").render(status=found)
        return JSONResponse({"status": html, "version": found["version"], "told": told})

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
            templates().get_template("open.html").render(), headers={"set-cookie": self.keys.set_cookie(secret)}
        )

    def name(self, request: Request) -> Response:
        """Ask for the reviewer's name."""
        return self.page(request, "name.html", suggested=request.state.reviewer or _user())

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
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise ParameterError("the record of what was on screen is not JSON") from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
