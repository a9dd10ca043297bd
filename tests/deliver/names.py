"""A server of names that has an answer for some names and none for the others."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

HEADER = struct.Struct(">6H")
IS_ANSWER, POINTER_TO_QUESTION = 0x8180, 0xC00C
A, IN = 1, 1


class _Names(asyncio.DatagramProtocol):
    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        question = data[HEADER.size :]
        end = question.index(b"\0") + 1
        if not question[1:].startswith(self.prefix):
            return
        kind = int.from_bytes(question[end : end + 2], "big")
        answers = struct.pack(">HHHIH4B", POINTER_TO_QUESTION, A, IN, 60, 4, 127, 0, 0, 1) if kind == A else b""
        header = HEADER.pack(int.from_bytes(data[:2], "big"), IS_ANSWER, 1, int(kind == A), 0, 0)
        self.transport.sendto(header + question[: end + 4] + answers, addr)


@asynccontextmanager
async def names(prefix: str) -> AsyncIterator[int]:
    """Names that begin with `prefix` are 127.0.0.1. Yields the port."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Names(prefix.encode()), local_addr=("127.0.0.1", 0)
    )
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()
