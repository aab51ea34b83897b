"""What every request passes: who may ask, how much, and what a browser may do with the answer."""

import ipaddress
import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.serving.schemas import BODY_LIMIT, Failure

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
PAIRS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class TooLargeError(Exception):
    """The body of a request is over the limit."""


class Guard:
    """ASGI middleware: Host and Origin are checked, bodies limited, security headers added.

    A page on the web can point its own name at this address (DNS rebinding), but the name then
    stands in the Host header: addresses, localhost and the names in `hosts` are answered only.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = (), limit: int = BODY_LIMIT):
        self.app, self.limit = app, limit
        self.hosts = {"localhost", *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        counted = _Counted(receive, self.limit)

        async def sending(message: Message) -> None:
            if counted.exceeded:  # whatever the application made of the end of its input
                return
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *PAIRS]}
            await send(message)

        with suppress(TooLargeError):
            await self.app(scope, counted, sending)
        if counted.exceeded:
            await _refuse(send, 413, self._too_large())

    def _refusal(self, headers: dict[bytes, str]) -> tuple[int, str] | None:
        host = headers.get(b"host", "")
        if not self._known(host):
            return 421, f"this server does not answer for the host {host[:100]!r}"
        origin = headers.get(b"origin")
        if origin is not None and not _same(origin, host):
            return 403, "only the page of this server may ask from a browser"
        length = headers.get(b"content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self.limit:
            return 413, self._too_large()
        return None

    def _too_large(self) -> str:
        return f"the request is larger than {self.limit:,} bytes"

    def _known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.hosts or _is_address(name)


class _Counted:
    """What a request sends, counted as it comes: its stated length may be absent or wrong."""

    def __init__(self, receive: Receive, limit: int):
        self.receive, self.left, self.exceeded = receive, limit, False

    async def __call__(self) -> Message:
        message = await self.receive()
        self.left -= len(message.get("body", b""))
        if self.left < 0:
            self.exceeded = True
            raise TooLargeError
        return message


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # no address at all
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps(Failure(error=sentence).model_dump()).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), *PAIRS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
