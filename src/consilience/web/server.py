"""The application: every address and its handler, behind :class:`consilience.web.security.Guard`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route

from consilience.web.browsing import Browsing
from consilience.web.downloads import Downloads
from consilience.web.reviewing import Reviewing
from consilience.web.security import Guard, Keys
from consilience.web.session import Review
from consilience.web.site import Handler, Step

__all__ = ["application"]


def application(review: Review, keys: Keys) -> Guard:
    """Return the ASGI application of a review."""
    one, all_, files = Reviewing(review, keys), Browsing(review, keys), Downloads(review, keys)
    gets: dict[str, Handler] = {
        "/": one.queue,
        "/item/{n:int}": one.item,
        "/status": one.status,
        "/items": all_.items,
        "/annotators": all_.annotators,
        "/annotator/{m:int}": all_.annotator,
        "/agreement": all_.agreement,
        "/progress": all_.progress,
        "/accept": all_.accept,
        "/export": files.export,
        "/export/labels": files.export_labels,
        "/export/gold.csv": files.export_gold,
        "/export/audit.csv": files.export_audit,
        "/name": one.name,
        "/media/{n:int}/{at:int}": files.media,
        "/static/{name}": files.static,
        "/open": one.open,
    }
    posts: dict[str, Step] = {
        "/decide": one.decide,
        "/act": one.act,
        "/undo": one.undo,
        "/accept/sample": all_.draw,
        "/accept/judge": all_.judge,
        "/accept": all_.accept_all,
        "/target": all_.set_target,
        "/checks": all_.set_checks,
        "/name": one.set_name,
        "/invite": files.invite,
    }
    routes = [Route(path, one.answering(handler), methods=["GET"]) for path, handler in gets.items()]
    routes += [
        Route(path, one.changing(handler, always=path == "/name"), methods=["POST"]) for path, handler in posts.items()
    ]
    app = Starlette(routes=routes, exception_handlers={404: one.not_found})
    return Guard(app, keys, review.store, remote_media=review.remote_media)
