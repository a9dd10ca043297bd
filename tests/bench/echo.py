"""A bare gRPC server in Python: GetUser with an answer that is always the same. What the transport alone takes, to
compare a replica with: over `grpc.aio`, or over what the replica's servers stand on (moneystate/rpc)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import Any

import grpc

from moneystate.query.v1 import query_pb2 as q
from moneystate.rpc import loop, methods
from moneystate.rpc.core import Queue
from moneystate.rpc.server import Server

SIZE = 700  # bytes, about those of an answer of the replica
AIO, OURS = "grpc.aio", "moneystate.rpc"
SERVICE = q.DESCRIPTOR.services_by_name["Query"].full_name
ADDRESS = "127.0.0.1:0"


def answer() -> q.GetUserResponse:
    made = q.GetUserResponse()
    made.user.user_id = "u" * SIZE
    return made


async def serve_aio() -> None:
    always = answer()

    async def get_user(request: q.GetUserRequest, context: Any) -> q.GetUserResponse:
        return always

    handler = grpc.unary_unary_rpc_method_handler(
        get_user, q.GetUserRequest.FromString, q.GetUserResponse.SerializeToString
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"GetUser": handler}),))
    port = server.add_insecure_port(ADDRESS)
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def serve_ours(queue: Queue) -> None:
    always = answer()
    server = Server(queue, [])
    server.add(
        f"/{SERVICE}/GetUser",
        methods.point(q.GetUserRequest.FromString, lambda request, context: always.SerializeToString()),
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
