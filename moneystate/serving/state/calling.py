"""Runs a declared query. It is plain code that may read and compute as much as it likes.

It first runs in the event loop, because most queries read only a few records. A query that takes longer is abandoned
and run again in a thread, which is possible because it depends only on its view and arguments. There its reads return
to the loop in bounded pieces, so that other calls run in between, and callers' queries run in turn.

A timer of the process interrupts a query in the loop, also where it computes and reads nothing. It raises an exception
in the query's own code, never in a read of the replica.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from moneystate.replica.snapshot import Snapshot
from moneystate.replica.view import ReplicaView
from moneystate.serving.calls import Call
from moneystate.serving.failures import Failure
from moneystate.serving.turns import Turns

AT_ONCE_S: Final = 0.005
AT_THE_SAME_TIME: Final = 4  # long queries; they share the interpreter with everything else
PER_CALLER: Final = 2  # of these, so that another caller's query starts at once
SLICE_S: Final = 0.01

Work = Callable[[], Any]
Query = Callable[[ReplicaView], Any]


class _TakesLong(BaseException):
    """A BaseException, so that no query catches it."""


class _Interrupts:
    """The timer that interrupts a query in the loop. It exists once for the process."""

    def __init__(self) -> None:
        self.may_interrupt = False  # the code that runs is a query's
        self.is_set_up = False

    def set_up(self) -> bool:
        """Returns whether this thread can be interrupted: only the main one can."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if not self.is_set_up:
            signal.signal(signal.SIGVTALRM, self._interrupt)
            signal.siginterrupt(signal.SIGVTALRM, False)  # the replica's threads go on with their reads
            self.is_set_up = True
        return True

    def _interrupt(self, _number: int, _frame: object) -> None:
        if self.may_interrupt:
            self.may_interrupt = False
            raise _TakesLong

    def run(self, query: Query, view: ReplicaView) -> Any:
        """Raises what the query raises, and _TakesLong."""
        signal.setitimer(signal.ITIMER_VIRTUAL, AT_ONCE_S, AT_ONCE_S)
        try:
            self.may_interrupt = True
            return query(view)
        finally:
            self.may_interrupt = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def read(self, work: Work) -> Any:
        """A read is bounded, and is not interrupted."""
        self.may_interrupt = False
        try:
            return work()
        finally:
            self.may_interrupt = True


_interrupts: Final = _Interrupts()


def _who(call: Call) -> str:
    caller = getattr(call, "caller", None)  # a query may run for no caller
    return "" if caller is None else str(caller.identity)


class QueryRunner:
    def __init__(self) -> None:
        self.turns = Turns(AT_THE_SAME_TIME, PER_CALLER, SLICE_S)
        self.is_closed = False

    async def run(self, snapshot: Snapshot, call: Call, query: Query) -> Any:
        """Returns the query's result. Raises what the query raises, and Failure DEADLINE."""
        if not _interrupts.set_up():
            return await self._in_thread(snapshot, call, query)
        until = time.monotonic() + AT_ONCE_S

        def directly(work: Work) -> Any:
            if time.monotonic() > until:
                raise _TakesLong
            return _interrupts.read(work)

        try:
            return _interrupts.run(query, ReplicaView(snapshot, directly))
        except _TakesLong:
            return await self._in_thread(snapshot, call, query)

    async def _in_thread(self, snapshot: Snapshot, call: Call, query: Query) -> Any:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        left = threading.Event()  # nobody waits for the result any more

        def tell(value: Any, error: BaseException | None) -> None:
            if result.done():
                return
            if error is None:
                result.set_result(value)
            else:
                result.set_exception(error)

        def run() -> None:
            turn = self.turns.take(_who(call))
            value: Any = None
            failed: BaseException | None = None

            def on_loop(work: Work) -> Any:
                turn.give_way()
                return self._on_loop(loop, call, left, work)

            try:
                if not left.is_set():
                    value = query(ReplicaView(snapshot, on_loop))
            except StopIteration as e:  # which a future refuses
                failed = RuntimeError("the query raised StopIteration")
                failed.__cause__ = e
            except BaseException as e:
                failed = e
            finally:
                turn.end()
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(tell, value, failed)

        threading.Thread(target=run, name="query", daemon=True).start()
        try:
            return await result
        finally:
            left.set()

    def _on_loop(self, loop: asyncio.AbstractEventLoop, call: Call, left: threading.Event, work: Work) -> Any:
        done: Future[Any] = Future()

        def piece() -> None:
            try:
                if left.is_set() or self.is_closed:
                    raise Failure("DEADLINE", "expected to answer before the call's deadline; ask for less.")
                call.check_deadline()
                done.set_result(work())
            except BaseException as e:
                done.set_exception(e)

        loop.call_soon_threadsafe(piece)
        return done.result()

    def close(self) -> None:
        """Queries that still run end at their next read, or with the process."""
        self.is_closed = True
