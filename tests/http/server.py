"""A server over real sockets on loopback that misbehaves as it is told, in the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from enum import Enum, auto
from typing import Self


class Mode(Enum):
    ANSWERS = auto()
    SILENT = auto()  # accepts calls, and never answers
    HALF = auto()  # sends the half of each answer, then nothing
    HANGS_UP = auto()  # sends the half of each answer, then closes the connection


class Server:
    """It keeps connections open. `async with` serves until the end of the block."""

    def __init__(self, body: Callable[[str], bytes] = str.encode) -> None:
        self.body = body  # of the answer to a path
        self.mode = Mode.ANSWERS
        self.port = 0  # 0: any free port; a restart uses the same
        self.accepted = 0
        self.most_open = 0
        self.paths: list[str] = []
        self.gate = asyncio.Event()  # answers wait for it
        self.gate.set()
        self._open: dict[StreamWriter, asyncio.Task[None]] = {}
        self._forgotten: set[StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        return len(self._open)

    def status(self, _path: str) -> int:
        """Returns the status of the answer to a path."""
        return 200

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """From now on nobody listens."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self.close_connections()

    async def close_connections(self) -> None:
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget_connections(self) -> None:
        """Those of now are dead without a sign, as if a firewall dropped what is sent over them."""
        self._forgotten |= self._open.keys()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[writer] = task
        self.accepted += 1
        self.most_open = max(self.most_open, self.open)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answered(reader, writer):
                    pass
        finally:
            del self._open[writer]
            writer.close()

    async def _answered(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Whether the connection stays."""
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        self.paths.append(path)
        mode = Mode.SILENT if writer in self._forgotten else self.mode
        if mode is not Mode.SILENT:
            await self.gate.wait()
            answer = self._answer(path)
            writer.write(answer if mode is Mode.ANSWERS else answer[: len(answer) // 2 + 1])
            await writer.drain()
        if mode in (Mode.SILENT, Mode.HALF):
            await reader.read()  # until the caller hangs up
        return mode is Mode.ANSWERS

    def _answer(self, path: str) -> bytes:
        body = self.body(path)
        return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (self.status(path), len(body), body)
