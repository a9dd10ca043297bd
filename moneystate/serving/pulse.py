"""What wakes watchers.

They look at the replica, which tells each of them what changed after the version that it has: no queue stands between
them, so a slow one holds nothing up and costs no memory.
"""

from __future__ import annotations

import asyncio
from typing import Final

from moneystate.replica.model import Version
from moneystate.serving.failures import Failure
from moneystate.serving.reads import Reads

LOOK_S: Final = 0.002  # how often the replica is looked at: a look holds reads up for as long as there is to take over


class Pulse:
    """Wakes all watchers when the replica has a newer version, or the server drains."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.newer = asyncio.Condition()
        self.draining = False

    async def run(self) -> None:
        seen: Version | None = None
        while not self.draining:
            await asyncio.sleep(LOOK_S)
            newest = self.reads.newest()
            if newest != seen:
                seen = newest
                await self._wake()

    async def drain(self) -> None:
        self.draining = True
        await self._wake()

    async def _wake(self) -> None:
        async with self.newer:
            self.newer.notify_all()

    async def wait(self, timeout_s: float) -> None:
        """Until there is a newer version, or for `timeout_s`. Raises Failure DRAINING."""
        if not self.draining:
            try:
                async with asyncio.timeout(timeout_s), self.newer:
                    await self.newer.wait()
            except TimeoutError:
                pass
        if self.draining:
            raise Failure("DRAINING", "the server is on its way down; go on with `after` at another")
