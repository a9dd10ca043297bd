"""A gRPC server over one completion queue."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import grpc

from moneystate.rpc.context import Context
from moneystate.rpc.core import Queue, cygrpc, raw_credentials
from moneystate.rpc.methods import Start, unimplemented

WANTED: Final = 16  # calls that may arrive together: each is asked for ahead


class Server:
    """`add` methods and a port, `start`, then `stop`; the last two in the loop that waits at `queue`. `options` are
    channel arguments of the C core."""

    def __init__(self, queue: Queue, options: list[tuple[str, int]]) -> None:
        self.queue = queue
        self.server = cygrpc.Server(tuple(options), False)
        self.server.register_completion_queue(queue)
        self.methods: dict[bytes, Start] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.stopping = False

    def add(self, path: str, start: Start) -> None:
        """`path`: /package.Service/Method."""
        self.methods[path.encode()] = start

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that `stop` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def listen(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """The port. `address`: HOST:PORT, port 0: a free one. Raises RuntimeError where it cannot be had."""
        raw = None if credentials is None else raw_credentials(credentials)
        port: int = self.server.add_http2_port(address.encode(), raw)
        if not port:
            raise RuntimeError(f"{address}: the address cannot be listened on")
        return port

    def start(self) -> None:
        self.server.start(False)
        for _ in range(WANTED):
            self._want()

    async def stop(self, grace_s: float) -> None:
        """New calls are refused; those that run may finish within `grace_s`."""
        self.stopping = True
        ended = asyncio.Event()

        def stopped(_: cygrpc.ServerShutdownEvent) -> bool:
            ended.set()
            return True

        self.server.shutdown(self.queue, stopped)
        try:
            async with asyncio.timeout(grace_s):
                await ended.wait()
        except TimeoutError:
            self.server.cancel_all_calls()
            await ended.wait()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.server.destroy()

    def _want(self) -> None:
        self.server.request_call(self.queue, self.queue, self._arrived)

    def _arrived(self, event: cygrpc.RequestCallEvent) -> bool:
        if not event.success:  # the server stops
            return False
        if not self.stopping:
            self._want()
        context = Context(event)
        method = self.methods.get(event.call_details.method, unimplemented)
        return method(context)
