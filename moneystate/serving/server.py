"""The gRPC server over one replica: services, health, reflection, limits, draining."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection, reflection_pb2

from moneystate.rpc import methods
from moneystate.rpc.context import Context
from moneystate.rpc.core import Queue
from moneystate.rpc.methods import Start
from moneystate.rpc.server import Server
from moneystate.serving.calls import MAX_ANSWER_BYTES, Calls
from moneystate.serving.feed import Feed
from moneystate.serving.metrics import Metrics
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.state.served import Handlers
from moneystate.serving.status_service import gauge

MAX_REQUEST_BYTES: Final = 1 << 20
MAX_STREAMS: Final = 1_000  # calls at once on one connection
KEEPALIVE_MS: Final = 30_000
MIN_PING_MS: Final = 10_000  # clients that ping more often are disconnected
REPORT_S: Final = 1.0  # how often health and gauges are updated from the replica
HEALTH_S: Final = 1.0  # the longest wait for health watchers that do not read their messages

OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_ANSWER_BYTES + (64 << 10)),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", MIN_PING_MS),
    ("grpc.http2.max_ping_strikes", 3),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.so_reuseport", 1),  # the workers listen on the same port, and the system distributes connections
]

HEALTH: Final[Any] = health_pb2.DESCRIPTOR.services_by_name["Health"]


@dataclass(frozen=True)
class Listen:
    """Describes where the server listens."""

    address: str  # HOST:PORT; port 0: a free one
    credentials: grpc.ServerCredentials | None  # None: without TLS


class QueryServer:
    """The server: `start`, then `drain`, both in the event loop that waits on `queue`."""

    def __init__(
        self,
        services: Sequence[Any],
        answers: Handlers,
        calls: Calls,
        tokens: PageTokens,
        metrics: Metrics,
        listen: Listen,
        queue: Queue,
    ) -> None:
        self.services = services
        self.reader = answers.reader
        self.metrics = metrics
        self.listen = listen
        self.feed = Feed(answers.reader)
        self.health = HealthServicer()
        self.endpoints = answers.endpoints(tokens, self.feed)
        self.calls = calls
        self.serving: bool | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.server = Server(queue, OPTIONS)

    async def start(self) -> int:
        """Starts to listen and returns the port. Raises RuntimeError if the port is taken."""
        for service in self.services:
            for method in service.methods:
                self.server.add(f"/{service.full_name}/{method.name}", self._start_of(service.name, method))
        self._add_health()
        self._add_reflection()
        await self._tell_health(False)
        port = self.server.listen(self.listen.address, self.listen.credentials)
        self.server.start()
        self.tasks = [asyncio.create_task(self.feed.run()), asyncio.create_task(self._report())]
        return port

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop`. Raises the error that ends the refresh of the replica: a state that no longer advances
        must not be served."""
        stopped = asyncio.create_task(stop.wait())
        ended, _ = await asyncio.wait([stopped, *self.tasks], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in ended:
            task.result()

    async def drain(self, grace_s: float) -> None:
        """Shuts down. Health changes first, so that no new callers arrive. Watchers are notified. Running calls may
        finish within `grace_s`; new ones are refused."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HEALTH_S):
                await self.health.enter_graceful_shutdown()
        await self.feed.drain()
        # the server ends the calls that still run then
        asyncio.get_running_loop().call_later(grace_s, self.calls.cut)
        await self.server.stop(grace_s)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _start_of(self, service: str, method: Any) -> Start:
        name = f"{service}.{method.name}"
        scope, handler = self.endpoints[name].scope, self.endpoints[name].handler
        parse = _parser(method)
        if method.server_streaming:
            return methods.server_stream(parse, self.calls.streaming(name, scope, handler), self.server.spawn)
        if inspect.iscoroutinefunction(handler):
            return methods.unary(parse, self.calls.unary(name, scope, handler), self.server.spawn)
        return methods.point(parse, self.calls.point(name, scope, handler))

    def _add_health(self) -> None:
        parse, spawn, path = _parser(HEALTH.methods_by_name["Check"]), self.server.spawn, f"/{HEALTH.full_name}"
        self.server.add(f"{path}/Check", methods.unary(parse, self.health.Check, spawn))
        self.server.add(f"{path}/Watch", methods.server_stream(parse, self._watch_health, spawn))

    async def _watch_health(self, request: Any, context: Context) -> None:
        with self.calls.anybodys_stream(context):
            await self.health.Watch(request, context)

    def _add_reflection(self) -> None:
        names = [*(s.full_name for s in self.services), HEALTH.full_name, reflection.SERVICE_NAME]
        tell = reflection.aio.ReflectionServicer(names).ServerReflectionInfo

        async def told(requests: Any, context: Context) -> AsyncIterator[Message]:
            with self.calls.anybodys_stream(context):
                async for answer in tell(requests, context):
                    yield answer

        service = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
        (method,) = service.methods
        path = f"/{service.full_name}/{method.name}"
        self.server.add(path, methods.bidi_stream(_parser(method), told, self.server.spawn))

    async def _report(self) -> None:
        while True:
            status = self.reader.status()
            gauge(self.metrics, status)
            await self._tell_health(status.caught_up)
            await asyncio.sleep(REPORT_S)

    async def _tell_health(self, serving: bool) -> None:
        if serving == self.serving:
            return
        known = health_pb2.HealthCheckResponse
        state = known.SERVING if serving else known.NOT_SERVING
        with suppress(TimeoutError):
            async with asyncio.timeout(HEALTH_S):
                for name in ("", *(s.full_name for s in self.services)):
                    await self.health.set(name, state)
                self.serving = serving  # otherwise it is tried again


def _parser(method: Any) -> methods.Parse:
    parse: methods.Parse = GetMessageClass(method.input_type).FromString
    return parse
