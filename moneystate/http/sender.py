"""Sends calls over a bounded pool of connections.

A connection whose call timed out, was cancelled or failed is closed. It never goes back to the pool, so no later call
can get half of another's reply.

Connections can be dead without a sign: a firewall forgot them, or the server hangs in all that it has accepted. Each
would then cost a call its whole time. So after `TIMEOUTS_IN_A_ROW` without a reply between them the whole pool is
replaced, with whatever its library has lost count of. From then on each call opens a connection, until one has a reply.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final

from moneystate.http.message import HttpCall, HttpReply, HttpTimeout

if TYPE_CHECKING:
    from moneystate.http.pool import Pool

TIMEOUTS_IN_A_ROW: Final = 3  # one or two may be due to their calls


class HttpSender:
    """Sends up to `most` calls at a time, all in one event loop. Call `close` at the end."""

    def __init__(self, most: int, tls: ssl.SSLContext | None = None) -> None:
        """`tls` None: the system's authorities."""
        self.renewals = 0  # how often the pool was replaced
        self._most = most
        self._tls = tls
        self._places = asyncio.Semaphore(most)
        self._pool: Pool | None = None
        self._timeouts = 0  # in a row

    async def send(self, call: HttpCall, timeout_s: float) -> HttpReply:
        """Makes one call. Its time begins when fewer than `most` calls are running. Raises HttpFailure."""
        async with self._places:
            pool = self._opened()
            pool.running += 1
            try:
                reply = await pool.exchange(call, timeout_s)
            except HttpTimeout:
                self._timed_out(pool)
                raise
            finally:
                pool.running -= 1
                await self._end_if_unused(pool)
            self._timeouts = 0
            return reply

    async def close(self) -> None:
        """Closes all connections. No call may be running."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    def _opened(self) -> Pool:
        if self._pool is None:
            # aiohttp takes 0.15 s to import. Most processes that import this module never call anyone.
            from moneystate.http.pool import Pool

            self._pool = Pool(self._most, self._tls)
        return self._pool

    def _timed_out(self, pool: Pool) -> None:
        if pool is not self._pool:
            return  # it has been replaced
        self._timeouts += 1
        if self._timeouts >= TIMEOUTS_IN_A_ROW:
            self._pool, self._timeouts = None, 0
            self.renewals += 1

    async def _end_if_unused(self, pool: Pool) -> None:
        """A pool that was replaced lives until its last call is over."""
        if pool is not self._pool and not pool.running:
            await pool.close()
