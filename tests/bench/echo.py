"""A bare gRPC server in Python: State.Get with an answer that is always the same. What the transport alone takes, to
compare a replica with: over `grpc.aio`, or over what the replica's servers stand on (moneystate/rpc)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import Any

import grpc

from moneystate.rpc import loop, methods
from moneystate.rpc.core import Queue
from moneystate.rpc.server import Server
from moneystate.state.v1 import state_pb2 as s

SIZE = 200  # bytes, about those of an answer of the replica
AIO, OURS = "grpc.aio", "moneystate.rpc"
SERVICE = s.DESCRIPTOR.services_by_name["State"].full_name
ADDRESS = "127.0.0.1:0"


def answer() -> s.GetResponse:
    return s.GetResponse(records=[s.Record(json="u" * SIZE)])


async def serve_aio() -> None:
    always = answer()

    async def get(request: s.GetRequest, context: Any) -> s.GetResponse:
        return always

    handler = grpc.unary_unary_rpc_method_handler(get, s.GetRequest.FromString, s.GetResponse.SerializeToString)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Get": handler}),))
    port = server.add_insecure_port(ADDRESS)
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def serve_ours(queue: Queue) -> None:
    always = answer()
    server = Server(queue, [])
    server.add(
        f"/{SERVICE}/Get",
        methods.point(s.GetRequest.FromString, lambda request, context: always.SerializeToString()),
    )
    port = server.listen(ADDRESS, None)
    server.start()
    print(port, flush=True)
    await asyncio.Event().wait()


@contextmanager
def bare_server(transport: str) -> Iterator[tuple[int, str]]:
    """Its process id and address. `transport`: AIO or OURS."""
    with Popen([sys.executable, "-m", __name__, transport], stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


if __name__ == "__main__":
    if sys.argv[1] == AIO:
        asyncio.run(serve_aio())
    else:
        loop.run(serve_ours)
