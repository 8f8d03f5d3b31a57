"""What all handlers share: templates, threads, and errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from consilience.data.names import marked, shown
from consilience.exceptions import ConsilienceError
from consilience.web.security import Keys, form_of
from consilience.web.session import Review

__all__ = ["PAGES", "Handler", "Site", "Step", "templates"]

Handler = Callable[[Request], Response]
Step = Callable[[Request, dict[str, str]], Response]

#: The pages by address.
PAGES = (
    ("/", "Review"),
    ("/items", "Items"),
    ("/annotators", "Annotators"),
    ("/agreement", "Agreement"),
    ("/accept", "Accept"),
    ("/progress", "Progress"),
    ("/export", "Export"),
)


@cache
def templates() -> Environment:
    """Return the templates, which escape everything."""
    made = Environment(
        loader=PackageLoader("consilience.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"name": marked, "plain": shown}
    return made


class Site:
    """A review, and how its pages are drawn."""

    def __init__(self, review: Review, keys: Keys) -> None:
        self.review, self.keys = review, keys

    def answering(self, handler: Handler) -> Any:
        """Return the handler of a page: in a thread, with errors in the data as a page that says what to do."""

        async def called(request: Request) -> Response:
            try:
                return await run_in_threadpool(handler, request)
            except (ConsilienceError, ValueError) as error:
                return self.message(request, "That did not work", str(error), 400)

        return called

    def changing(self, handler: Step, *, always: bool = False) -> Any:
        """Return the handler of a form: for named reviewers, and refused in a read-only review, unless ``always``."""

        async def called(request: Request) -> Response:
            try:
                fields = form_of(await request.body())
                if self.review.read_only and not always:
                    return self.told(request, "The review is read-only: nothing was changed.", 403)
                if not request.state.reviewer and not always:
                    return RedirectResponse("/name", 303)
                return await run_in_threadpool(handler, request, fields)
            except (ConsilienceError, ValueError) as error:
                return self.told(request, str(error), 400)

        return called

    def not_found(self, request: Request, _: Exception) -> Response:
        """Return the page for an address that does not exist."""
        return self.message(request, "There is no such page", "Perhaps the address was copied only in part.", 404)

    def page(self, request: Request, name: str, code: int = 200, **content: Any) -> Response:
        """Return a page."""
        template = templates().get_template(name)
        reviewer, path = request.state.reviewer, request.url.path
        here = "/annotators" if path.startswith("/annotator") else "/" if path.startswith("/item/") else path
        frame = {"title": shown(self.review.title, 80), "reviewer": reviewer, "pages": PAGES, "here": here}
        return HTMLResponse(template.render(**frame, read_only=self.review.read_only, **content), code)

    def message(self, request: Request, heading: str, text: str, status: int) -> Response:
        """Return a page with a message."""
        return self.page(request, "message.html", status, heading=heading, text=text)

    def told(self, request: Request, text: str, status: int) -> Response:
        """Return why a step was refused, to our script or as a page."""
        if request.headers.get("x-fragment"):
            return JSONResponse({"ok": False, "told": text}, status)
        return self.message(request, "That did not work", text, status)
