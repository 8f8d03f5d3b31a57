"""Who may talk to the server: a browser on this machine that followed an address with a token, on our own pages.

Every request needs a loopback host name, against DNS rebinding; a body of limited size; and, but for the address with
the token and the style sheet, the cookie that the token was exchanged for.  A request that changes something must come
from one of our pages.  Pages may load nothing but our script, our style sheet and media.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from consilience.web.store import Store

__all__ = ["MOST_BYTES", "Guard", "Keys", "form_of"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Largest body and address of a request.
MOST_BYTES, MOST_ADDRESS = 1 << 16, 1 << 13
#: Seconds that a body may take.
_PATIENCE = 20.0
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
#: Paths that need no cookie.
_OPEN = ("/static/", "/open")


class Keys:
    """Tokens that can be exchanged once, and the sessions that they became."""

    def __init__(self, store: Store, port: int) -> None:
        self._store, self.cookie = store, f"consilience_{port}"
        self._tokens: set[str] = set()
        self._lock = threading.Lock()

    def invite(self) -> str:
        """Return a new token."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens.add(token)
        return token

    def exchange(self, token: str) -> str | None:
        """Return the secret of a new session for an unused token, which is used up; None for any other."""
        with self._lock:
            match = next((each for each in self._tokens if secrets.compare_digest(each.encode(), token.encode())), None)
            if match is None:
                return None
            self._tokens.discard(match)
        secret = secrets.token_urlsafe(32)
        self._store.open_session(secret)
        return secret

    def secret_in(self, headers: dict[bytes, bytes]) -> str:
        """Return the secret in the cookie of a request, or ""."""
        try:
            jar = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return ""
        return jar[self.cookie].value if self.cookie in jar else ""

    def set_cookie(self, secret: str) -> str:
        """Return the header that sets the cookie."""
        return f"{self.cookie}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={7 * 86400}"


class Guard:
    """Checks every request before the application sees it, and adds headers to every answer."""

    def __init__(self, app: Any, keys: Keys, store: Store, *, remote_media: bool = False) -> None:
        self._app, self._keys, self._store = app, keys, store
        media = "'self' https: http:" if remote_media else "'self'"
        policy = (
            f"default-src 'none'; script-src 'self'; style-src 'self'; img-src {media} data:; media-src {media}; "
            "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            # "no-referrer" would also take the origin from our own forms
            (b"referrer-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
            (b"x-frame-options", b"DENY"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it in one sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = [*message.get("headers", []), *self._headers]
                if not any(name == b"cache-control" for name, _ in own):
                    own.append((b"cache-control", b"no-store"))
                message["headers"] = own
            await send(message)

        headers = dict(scope["headers"])
        secret = self._keys.secret_in(headers)
        reviewer = self._store.session(secret) if secret else None
        problem = _problem(scope, headers, known=reviewer is not None)
        body = b""
        if problem is None and scope["method"] == "POST":
            try:
                async with asyncio.timeout(_PATIENCE):
                    body, problem = await _body(receive)
            except TimeoutError:
                problem = 408, "The request took too long."
        if problem is not None:
            await _refuse(guarded, *problem)
            return
        scope["state"] = {**scope.get("state", {}), "reviewer": reviewer or "", "secret": secret}

        whole = [{"type": "http.request", "body": body, "more_body": False}] if scope["method"] == "POST" else []

        async def again() -> MutableMapping[str, Any]:
            return whole.pop() if whole else await receive()

        await self._app(scope, again, guarded)


def _problem(scope: Scope, headers: dict[bytes, bytes], *, known: bool) -> tuple[int, str] | None:
    """Return status and reason of a refusal; None if the request may pass."""
    path = scope["path"]
    if scope["method"] not in ("GET", "HEAD", "POST"):
        return 405, "Only GET and POST are allowed."
    if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > MOST_ADDRESS:
        return 414, "The address is too long."
    if _host(headers.get(b"host", b"")) not in _LOOPBACK:
        return 403, "This server answers on this machine only: open it as 127.0.0.1 or localhost."
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MOST_BYTES:
        return 413, f"The request is larger than {MOST_BYTES} bytes."
    if scope["method"] == "POST" and not _same_origin(headers):
        return 403, "The request came from another site, and was refused."
    if not known and not path.startswith(_OPEN):
        return 403, (
            "This page needs the address that consilience review printed; it works once. For another browser, make a "
            "new one on the page Export, or start the command again."
        )
    return None


def _host(value: bytes) -> str:
    try:
        return (urlsplit(f"//{value.decode('ascii')}").hostname or "").lower()
    except (ValueError, UnicodeDecodeError):
        return ""


def _same_origin(headers: dict[bytes, bytes]) -> bool:
    """Return whether a page of ours sent the request; the browser says so, and scripts of others cannot."""
    site = headers.get(b"sec-fetch-site")
    if site is not None and site != b"same-origin":
        return False
    origin = headers.get(b"origin")
    return origin is not None and origin.lower() == b"http://" + headers.get(b"host", b"").lower()


async def _body(receive: Receive) -> tuple[bytes, tuple[int, str] | None]:
    """Read a body up to the limit, whatever length it claims to have."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"", (400, "The request ended early.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            return b"", (413, f"The request is larger than {MOST_BYTES} bytes.")
        if not message.get("more_body"):
            return b"".join(parts), None


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = f"{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def form_of(body: bytes) -> dict[str, str]:
    """Return the fields of a form; of repeated ones the last.  Raise ValueError if it is not one."""
    fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=100, errors="strict")
    return {name: values[-1] for name, values in fields.items()}
