"""Real servers of customers, good and bad, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web

HANG_S = 30.0


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    port: int  # of the sender
    at_ms: int = field(compare=False)


@dataclass
class Receiver:
    """`url`: with a path for each manner of answering; `journal`: what came, in order; `accepted`: what of it was
    answered with 2xx; `moods`: the manner of each path `/moody/NAME`, which may change."""

    url: str = ""
    journal: list[Received] = field(default_factory=list)
    accepted: list[Received] = field(default_factory=list)
    moods: dict[str, str] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert request.transport is not None
        port = request.transport.get_extra_info("peername")[1]
        received = Received(request.path, headers, await request.read(), port, time.time_ns() // 1_000_000)
        self.journal.append(received)
        response = await self._response(request, headers)
        if response.status < 300:
            self.accepted.append(received)
        return response

    async def _response(self, request: web.Request, headers: dict[str, str]) -> web.StreamResponse:
        assert request.transport is not None
        kind, _, detail = request.path.strip("/").partition("/")
        if kind == "moody":
            kind, _, detail = self.moods.get(detail, "ok").partition("/")
        match kind:
            case "status":
                return web.Response(status=int(detail), text=f"status {detail}")
            case "retry":
                return web.Response(status=429, headers={"Retry-After": detail})
            case "redirect":
                return web.Response(status=307, headers={"Location": f"{self.url}/ok"})
            case "hang":
                await asyncio.sleep(HANG_S)
            case "reset":
                request.transport.abort()
            case "huge":
                return await self._streamed(request, b"x" * 65_536, 0.0)
            case "drip":
                return await self._streamed(request, b"y", 0.3)
            case "echo":
                return web.Response(text=f"\x1b[31m{headers.get('authorization', '')}\r\n{'z' * 400}")
            case "packed":
                return web.Response(body=b"\x1f\x8b\x08" + b"\0" * 100, headers={"Content-Encoding": "gzip"})
        return web.Response(text="thanks")

    async def _streamed(self, request: web.Request, part: bytes, wait_s: float) -> web.StreamResponse:
        """A body that does not end."""
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(part)
                await asyncio.sleep(wait_s)
        return response


@contextlib.asynccontextmanager
async def receiver(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application(client_max_size=100_000_000)
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    [address] = runner.addresses
    made.url = f"{'https' if tls else 'http'}://127.0.0.1:{address[1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def talking(answer: bytes) -> AsyncIterator[str]:
    """The URL of a server that says these bytes to everyone and closes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
