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
from services.query.callers import Caller, Callers, Context
from services.query.failures import Failure, of_store
from services.query.metrics import Metrics
from services.replica.model import ReplicaError, Version

log = logging.getLogger(__name__)

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
        is up (grpc.aio cancels the handler then). Raises Failure DEADLINE."""
        await asyncio.sleep(0)
        if (self.context.time_remaining() or 0.0) < 0.0:
            raise Failure("DEADLINE", "expected to answer before the call's deadline; ask for less.")


Unary = Callable[[Any, Call], Awaitable[Message]]
Streaming = Callable[[Any, Call], AsyncIterator[Message]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`handler`: a Unary or a Streaming, as its method is. `scope`: that it needs."""

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
            except (Failure, ReplicaError) as e:
                await _abort(e, ended, context)
            except Exception as e:
                ended.code = grpc.StatusCode.INTERNAL.name
                await _abort_unforeseen(name, e, context)
            finally:
                seconds.observe(time.perf_counter() - began)
                ended.note()
            raise AssertionError("unreachable: abort raises")

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
            except (Failure, ReplicaError) as e:
                await _abort(e, ended, context)
            except Exception as e:
                ended.code = grpc.StatusCode.INTERNAL.name
                await _abort_unforeseen(name, e, context)
            finally:
                self.metrics.streams.dec()
                ended.note()

        return run

    def _enter(self, context: Context, scope: str) -> Call:
        caller = self.callers.caller(context)
        caller.require(scope)
        return Call(caller, context)


_OK: Final = grpc.StatusCode.OK.name
STREAMING: Final = "STREAMING"  # the audit's outcome of what a stream reads on its way


async def _abort(error: Failure | ReplicaError, ended: _Ended, context: Context) -> None:
    failure = error if isinstance(error, Failure) else of_store(error)
    ended.code = failure.code.name
    await context.abort(failure.code, failure.message, failure.trailers())


async def _abort_unforeseen(name: str, error: Exception, context: Context) -> None:
    """An error of ours: the log has it all, the caller no more than that there was one."""
    log.error("%s: unforeseen %s", name, type(error).__name__, exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, "an error of the server; its log has more")


class _Ended:
    """What there is to note of a call at its end."""

    def __init__(self, name: str, calls: Calls) -> None:
        self.name = name
        self.calls = calls
        self.call: Call | None = None
        self.code = ""  # until the handler says: it did not come to its end

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
