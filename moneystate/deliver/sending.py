"""Sends requests to endpoints of customers, whom nobody trusts: over connections to public addresses alone, without
redirects and without a proxy, and with little read of what they answer.

An attempt always has an `Answer`, so a customer's server cannot end a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
import weakref
from collections.abc import Callable
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from moneystate.deliver.addresses import Addresses
from moneystate.deliver.answers import readable
from moneystate.deliver.attempts import Answer, Request
from moneystate.deliver.connections import Connections

MOST_ANSWER_BYTES: Final = 500  # of a body that are read, as they are on the wire
ANSWER_S: Final = 1.0  # in which they must come
IDLE_S: Final = 15.0  # an unused connection is closed after it
NEVER: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
AddressInfo = tuple[int, int, int, str, tuple[object, ...]]


class RefusedAddress(OSError):
    """The name of an endpoint has an address that may not be connected to."""


class Sender:
    """It has up to `connections.most` requests at a time, as its caller sees to, in one event loop. Call `close` at the
    end."""

    def __init__(
        self, addresses: Addresses, most: int, tls: ssl.SSLContext | None = None,
        resolver: Callable[[], AbstractResolver] = aiohttp.AsyncResolver,
    ) -> None:  # fmt: skip
        """`tls` None: the system's authorities. `resolver` asks servers of names without a thread for each, so that a
        name without an answer holds up no other one."""
        self.connections = Connections(most, lambda: len(self._sockets))
        self._addresses = addresses
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()  # those of open connections
        self._tls = tls
        self._resolver = resolver()
        self._kept, self._closed = self._new_session(keeps=True), self._new_session(keeps=False)

    def _new_session(self, keeps: bool) -> aiohttp.ClientSession:
        """`keeps`: connections are used again. No request waits for a connection in a session."""
        connector = aiohttp.TCPConnector(
            limit=0, limit_per_host=0, keepalive_timeout=IDLE_S if keeps else None, force_close=not keeps,
            ssl=True if self._tls is None else self._tls, socket_factory=self._socket, resolver=self._resolver,
        )  # fmt: skip
        return aiohttp.ClientSession(
            connector=connector, timeout=NEVER, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
            trust_env=False, skip_auto_headers=("User-Agent", "Accept"), headers={"Accept-Encoding": "identity"},
        )  # fmt: skip

    async def send(self, request: Request) -> Answer:
        begun = time.monotonic()
        session = self._closed if self.connections.is_scarce else self._kept
        try:
            async with asyncio.timeout(request.timeout_ms / 1_000):
                response = await session.post(
                    URL(request.url, encoded=True), data=request.body, headers=request.headers, allow_redirects=False
                )
        except TimeoutError:
            return Answer(None, _ms_since(begun), problem=f"no answer within {request.timeout_ms} ms")
        except (aiohttp.ClientError, OSError, ValueError) as e:
            return Answer(None, _ms_since(begun), problem=_problem(e))
        try:
            text = await _beginning(response)
        finally:
            response.close()  # the rest of a body is not worth a connection
        took_ms = _ms_since(begun)
        shown = readable(text, request.secrets)
        return Answer(response.status, took_ms, response.headers.get("Retry-After"), shown)

    async def close(self) -> None:
        await self._kept.close()
        await self._closed.close()
        await self._resolver.close()

    def _socket(self, info: AddressInfo) -> socket.socket:
        """Called for each connection, so an address that has changed since it was looked up is checked, too."""
        family, kind, protocol, _, address = info
        refusal = self._addresses.refusal(str(address[0]))
        if refusal:
            raise RefusedAddress(refusal)
        made = socket.socket(family=family, type=kind, proto=protocol)
        self._sockets.add(made)
        return made


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """What comes of the body at once."""
    got = bytearray()
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError, ValueError):
        async with asyncio.timeout(ANSWER_S):
            while len(got) < MOST_ANSWER_BYTES:
                part = await response.content.read(MOST_ANSWER_BYTES - len(got))
                if not part:
                    break
                got += part
    return bytes(got)


def _problem(e: Exception) -> str:
    """Without texts of the customer's server, and without the URL."""
    refused = _cause(e, RefusedAddress)
    if refused is not None:
        return f"its address is refused: {refused}"
    if isinstance(e, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
        return "the TLS connection failed"
    if isinstance(e, aiohttp.ClientConnectorDNSError):
        return "its name has no address"
    if isinstance(e, aiohttp.ClientConnectorError):
        return "no connection"
    if isinstance(e, aiohttp.ServerDisconnectedError | ConnectionError):
        return "the connection was closed without an answer"
    if isinstance(e, aiohttp.InvalidURL | ValueError):
        return "the request cannot be sent"
    return f"the answer is not valid HTTP ({type(e).__name__})"


def _cause(e: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The first error of a kind among an error and those that led to it."""
    seen: BaseException | None = e
    while seen is not None:
        if isinstance(seen, kind):
            return seen
        inner = getattr(seen, "os_error", None)
        if isinstance(inner, kind):
            return inner
        seen = seen.__cause__ or seen.__context__
    return None


def _ms_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1_000)
