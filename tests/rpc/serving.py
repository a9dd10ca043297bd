"""A server of moneystate.rpc in a thread, on a real socket, with methods of all kinds. Messages are StringValues."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import StringValue

from moneystate.rpc import loop, methods
from moneystate.rpc.context import Abort, Context
from moneystate.rpc.core import Queue
from moneystate.rpc.server import Server
from tests.query.serving import UP_S

OPTIONS = [("grpc.max_receive_message_length", 1 << 20)]


@dataclass
class Seen:
    """What handlers met."""

    peers: list[str] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    remaining_s: list[float] = field(default_factory=list)
    waiting: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    told_at: list[int] = field(default_factory=list)  # turns of the loop after the gate was opened


class Running:
    """Until the end of the block, or `stop`."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.port = 0
        self.turns = 0
        self.up = threading.Event()
        self.stopped: asyncio.Event
        self.gate: asyncio.Event
        self.running: asyncio.AbstractEventLoop
        self.grace_s = 0.0
        self.thread = threading.Thread(target=self._run)
        self.server: Server

    def __enter__(self) -> Running:
        self.thread.start()
        assert self.up.wait(UP_S)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop(0.0)
        self.thread.join(UP_S)
        assert not self.thread.is_alive()

    def stop(self, grace_s: float) -> None:
        if self.thread.is_alive() and not self.server.stopping:
            self.grace_s = grace_s
            self.running.call_soon_threadsafe(self.stopped.set)

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(f"127.0.0.1:{self.port}")

    def _run(self) -> None:
        loop.run(self._serve)

    async def _serve(self, queue: Queue) -> None:
        self.stopped, self.gate, self.running = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
        server = self.server = Server(queue, OPTIONS)
        parse, spawn = StringValue.FromString, server.spawn
        server.add("/test/point", methods.point(parse, self.point))
        server.add("/test/unary", methods.unary(parse, self.unary, spawn))
        server.add("/test/stream", methods.server_stream(parse, self.stream, spawn))
        server.add("/test/chat", methods.bidi_stream(parse, self.chat, spawn))
        self.port = server.listen("127.0.0.1:0", None)
        server.start()
        self.up.set()
        await self.stopped.wait()
        await server.stop(self.grace_s)

    def point(self, request: StringValue, context: Context) -> bytes:
        self.seen.peers.append(context.peer())
        self.seen.metadata.append(dict(context.invocation_metadata()))
        self.seen.remaining_s.append(context.time_remaining())
        fail(request.value)
        return StringValue(value=request.value.upper()).SerializeToString()

    async def unary(self, request: StringValue, context: Context) -> StringValue:
        fail(request.value)
        if request.value.startswith("for "):
            await asyncio.sleep(float(request.value.split()[1]))
        if request.value == "wait":
            await self._wait()
        if request.value == "cancelled":
            raise asyncio.CancelledError
        return StringValue(value=request.value.upper())

    async def stream(self, request: StringValue, context: Context) -> AsyncIterator[StringValue]:
        for letter in request.value:
            fail(letter)
            if letter == "w":
                await self._wait()
            if letter == "g":
                await self.gate.wait()
            yield StringValue(value=letter)
            if letter == "g":
                self.seen.told_at.append(self.turns)

    async def open_gate(self) -> None:
        """For streams that wait there, and count turns until the server stops."""
        self.gate.set()
        while not self.stopped.is_set():
            self.turns += 1
            await asyncio.sleep(0)

    async def chat(self, requests: AsyncIterator[StringValue], context: Context) -> AsyncIterator[StringValue]:
        async for request in requests:
            fail(request.value)
            yield StringValue(value=request.value[::-1])

    async def _wait(self) -> None:
        self.seen.waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.seen.cancelled.set()
            raise


def fail(how: str) -> None:
    if how == "!":
        raise ValueError("an error of the handler")
    if how == "?":
        raise Abort(grpc.StatusCode.NOT_FOUND, "there is none", (("why-bin", b"\x00\x01"),))
