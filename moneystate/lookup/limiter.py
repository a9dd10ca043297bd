"""Decides when the next call may be made, from `--rate-limit` and the service's `Retry-After`."""

from __future__ import annotations

import asyncio

MAX_HOLD_S = 300.0  # the limit of Retry-After, because a mistake there must not stop lookups for days


class Limiter:
    """Spaces calls evenly. `per_second` None: no limit. Times are from the event loop's clock."""

    def __init__(self, per_second: float | None) -> None:
        self._interval_s = 0.0 if per_second is None else 1.0 / per_second
        self._next_at = 0.0
        self._held_until = 0.0

    def hold(self, seconds: float) -> None:
        """Allows no call for `seconds`. The service asks one request to wait, but it means all."""
        until = asyncio.get_running_loop().time() + min(seconds, MAX_HOLD_S)
        self._held_until = max(self._held_until, until)

    async def turn(self) -> None:
        """Waits until the next call may be made."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if now < self._held_until:
                await asyncio.sleep(self._held_until - now)
                continue
            slot = max(now, self._next_at)
            self._next_at = slot + self._interval_s
            if slot > now:
                await asyncio.sleep(slot - now)
                if loop.time() < self._held_until:
                    continue
            return
