"""The way of every call: who calls, may they, the handler, its failure as a status, metrics, audit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from services.query.audit import Audit
from services.query.callers import Caller, Callers
from services.query.failures import Failure, of_store
from services.query.metrics import Metrics
from services.replica.model import ReplicaError, Version
from services.rpc.context import Abort, Context

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES: Final = 8 << 20

Wrapped = Callable[[Any, Context], Any]


@dataclass(slots=True)
class Call:
    """One call, for its handler. `touched`: users whose personal fields go out, or who are changed: for the audit."""

    caller: Caller
    context: Context
    touched: list[str] = field(default_factory=list)
    version: Version | None = None
    changed: bool = False

    async def breathe(self) -> None:
        """Between two bounded pieces of a long call: let others run; ends here once the caller is gone or its time
        is up (its task is cancelled then). Raises Failure DEADLINE."""
        await asyncio.sleep(0)
        if self.context.time_remaining() < 0.0:
            raise Failure("DEADLINE", "expected to answer before the call's deadline; ask for less.")


Point = Callable[[Any, Call], Message]  # of bounded time: some ms at most
Unary = Callable[[Any, Call], Awaitable[Message]]
Streaming = Callable[[Any, Call], AsyncIterator[Message]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`handler`: a Point or a Unary, or a Streaming where its method is. `scope`: that it needs."""

    scope: str
    handler: Any


class Calls:
    def __init__(self, callers: Callers, audit: Audit, metrics: Metrics) -> None:
        self.callers = callers
        self.audit = audit
        self.metrics = metrics
        self.is_cut = False

    def cut(self) -> None:
        """From now on the server ends the calls that still run."""
        self.is_cut = True

    def point(self, name: str, scope: str, handler: Point) -> Wrapped:
        """Gives the answer's bytes."""
        seconds = self.metrics.seconds.labels(name)

        def run(request: Any, context: Context) -> bytes:
            began = time.perf_counter()
            ended = _Ended(name, self)
            try:
                call = ended.call = self._enter(context, scope)
                answer = handler(request, call).SerializeToString()
                if len(answer) > MAX_ANSWER_BYTES:
                    raise too_big()
                ended.code = _OK
                return answer
            except Exception as e:
                raise ended.abort(e) from None
            finally:
                seconds.observe(time.perf_counter() - began)
                ended.note()

        return run

    def unary(self, name: str, scope: str, handler: Unary) -> Wrapped:
        seconds = self.metrics.seconds.labels(name)

        async def run(request: Any, context: Context) -> Message:
            began = time.perf_counter()
            ended = _Ended(name, self)
            try:
                call = ended.call = self._enter(context, scope)
                answer = await handler(request, call)
                ended.code = _OK
                return answer
            except Exception as e:
                raise ended.abort(e) from None
            finally:
                seconds.observe(time.perf_counter() - began)
                ended.note()

        return run

    def streaming(self, name: str, scope: str, handler: Streaming) -> Wrapped:
        async def run(request: Any, context: Context) -> AsyncIterator[Message]:
            ended = _Ended(name, self)
            self.metrics.streams.inc()
            try:
                call = ended.call = self._enter(context, scope)
                async for answer in handler(request, call):
                    ended.note_personal(STREAMING)  # a stream has no end to wait for
                    yield answer
                ended.code = _OK
            except Exception as e:
                raise ended.abort(e) from None
            finally:
                self.metrics.streams.dec()
                ended.note()

        return run

    def _enter(self, context: Context, scope: str) -> Call:
        caller = self.callers.caller(context)
        caller.require(scope)
        return Call(caller, context)


def too_big() -> Failure:
    return Failure("TOO_BIG", f"one user alone is more than the {MAX_ANSWER_BYTES:,} bytes that an answer holds")


_OK: Final = grpc.StatusCode.OK.name
STREAMING: Final = "STREAMING"  # the audit's outcome of what a stream reads on its way


class _Ended:
    """What there is to note of a call at its end."""

    def __init__(self, name: str, calls: Calls) -> None:
        self.name = name
        self.calls = calls
        self.call: Call | None = None
        self.code = ""  # until the handler says: it did not come to its end

    def abort(self, error: Exception) -> Abort:
        """What the caller is told. Of an error of ours no more than that there was one: the log has it all."""
        if not isinstance(error, Failure | ReplicaError):
            log.error("%s: unforeseen %s", self.name, type(error).__name__, exc_info=error)
            self.code = grpc.StatusCode.INTERNAL.name
            return Abort(grpc.StatusCode.INTERNAL, "an error of the server; its log has more")
        failure = error if isinstance(error, Failure) else of_store(error)
        self.code = failure.code.name
        return Abort(failure.code, failure.message, failure.trailers())

    def note(self) -> None:
        code = self.code or (grpc.StatusCode.UNAVAILABLE if self.calls.is_cut else grpc.StatusCode.CANCELLED).name
        self.calls.metrics.calls.labels(self.name, code).inc()
        self.note_personal(code)

    def note_personal(self, outcome: str) -> None:
        """The audit's line, where there is anything new to say."""
        call = self.call
        if call is not None and (call.touched or call.changed):
            self.calls.audit.write(self.name, call.caller, call.touched, call.version, outcome, call.changed)
            call.touched = []
