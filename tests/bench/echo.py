"""A bare gRPC server in Python: GetUser with an answer that is always the same. What the framework alone takes, to
compare a replica with."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import Any

import grpc

from moneystate.query.v1 import query_pb2 as q

SIZE = 700  # bytes, about those of an answer of the replica


async def _serve() -> None:
    answer = q.GetUserResponse()
    answer.user.user_id = "u" * SIZE

    async def get_user(request: q.GetUserRequest, context: Any) -> q.GetUserResponse:
        return answer

    handler = grpc.unary_unary_rpc_method_handler(
        get_user, q.GetUserRequest.FromString, q.GetUserResponse.SerializeToString
    )
    server = grpc.aio.server()
    service = q.DESCRIPTOR.services_by_name["Query"].full_name
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"GetUser": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


@contextmanager
def bare_server() -> Iterator[tuple[int, str]]:
    """Its process id and address."""
    with Popen([sys.executable, "-m", __name__], stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(_serve())
