"""Reads commands, and what they mean, in a thread of its own: a worker sends meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from moneystate.deliver.command_reader import Again, CommandReader
from moneystate.deliver.history import Command


class Obeyer:
    """One call at a time. A call that is cancelled goes on in the thread, and the next one waits for it."""

    def __init__(self, reader: CommandReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, "commands")

    async def after(self, partition: int, offset: int) -> tuple[list[Command], int]:
        """The commands from an offset on, and the offset after them. Raises BrokerError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._reader.after, partition, offset)

    async def meant(self, partition: int, commands: list[Command]) -> list[Again]:
        """Returns what they ask for and is not in the log yet. Raises BrokerError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._reader.meant, partition, commands)

    def close(self) -> None:
        self._reader.topics.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)
