"""Runs a declared query. It is plain code that may read as much as it likes.

It first runs directly, because most queries read only a few records. A query that takes longer is abandoned and run
again in a thread, which is possible because it depends only on its view and arguments. There its reads return to the
loop in bounded pieces, so that other calls run in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from moneystate.replica.service_view import ReplicaView, ServiceSnapshot
from moneystate.serving.calls import Call
from moneystate.serving.failures import Failure

AT_ONCE_S: Final = 0.005
THREADS: Final = 16  # long queries that run at the same time; others wait

Work = Callable[[], Any]


class _TakesLong(BaseException):
    """A BaseException, so that no query catches it."""


class QueryRunner:
    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(THREADS, "query")

    async def run(self, snapshot: ServiceSnapshot, call: Call, query: Callable[[ReplicaView], Any]) -> Any:
        """Returns the query's result. Raises what the query raises, and Failure DEADLINE."""
        until = time.monotonic() + AT_ONCE_S

        def directly(work: Work) -> Any:
            if time.monotonic() > until:
                raise _TakesLong
            return work()

        try:
            return query(ReplicaView(snapshot, directly))
        except _TakesLong:
            return await self._in_thread(snapshot, call, query)

    async def _in_thread(self, snapshot: ServiceSnapshot, call: Call, query: Callable[[ReplicaView], Any]) -> Any:
        loop = asyncio.get_running_loop()
        gone = False

        def on_loop(work: Work) -> Any:
            done: Future[Any] = Future()

            def piece() -> None:
                try:
                    if gone:
                        raise Failure("DEADLINE", "expected to answer before the call's deadline; ask for less.")
                    call.check_deadline()
                    done.set_result(work())
                except BaseException as e:
                    done.set_exception(e)

            loop.call_soon_threadsafe(piece)
            return done.result()

        try:
            return await loop.run_in_executor(self.threads, query, ReplicaView(snapshot, on_loop))
        finally:
            gone = True

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
