"""The path of every call: authentication, scope, handler, errors as status codes, metrics, audit."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from moneystate.replica.model import ReplicaError, Version
from moneystate.rpc.context import Abort, Context
from moneystate.serving.audit import Audit
from moneystate.serving.callers import Caller, Callers, machine
from moneystate.serving.failures import Failure, of_store
from moneystate.serving.limits import Rooms
from moneystate.serving.metrics import Metrics
from moneystate.serving.turns import Queue
from moneystate.telemetry.spans import Answered, OpenCall, ServedCalls

# Clients of gRPC refuse more than 4 MiB unless they are configured to accept it
MAX_ANSWER_BYTES: Final = 4_000_000

Wrapped = Callable[[Any, Context], Any]


@dataclass(slots=True)
class Call:
    """One call, as its handler sees it."""

    caller: Caller
    context: Context
    # Users whose personal fields are returned or who are changed, for the audit log.
    touched: list[str] = field(default_factory=list)
    version: Version | None = None
    changed: bool = False
    unreadable: int = 0  # records that were answered without their content
    queue: Queue | None = None  # of all calls; None: the call has the loop for itself

    async def yield_control(self) -> None:
        """Call it between two bounded pieces of a long call, so that other calls run. Callers have their turns in
        rotation, however many calls each of them has. The call ends here if its caller has gone (its task is cancelled
        then) or its time is up. Raises Failure DEADLINE."""
        if self.queue is None:
            await asyncio.sleep(0)
        else:
            await self.queue.turn(self.caller.identity)
        self.check_deadline()

    def note_unreadable(self) -> None:
        self.unreadable += 1

    def check_deadline(self) -> None:
        """Raises Failure DEADLINE if nobody waits for the answer any more."""
        if self.context.time_remaining() < 0.0:
            raise Failure("DEADLINE", "expected to answer before the call's deadline; ask for less.")


Point = Callable[[Any, Call], Message]  # takes a few ms at most
Unary = Callable[[Any, Call], Awaitable[Message]]
Streaming = Callable[[Any, Call], AsyncGenerator[bytes]]  # yields encoded answers


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a service."""

    scope: str  # the scope that a caller needs
    handler: Any  # a Point, a Unary, or a Streaming, depending on the method


class Calls:
    def __init__(
        self, callers: Callers, audit: Audit, metrics: Metrics, rooms: Rooms, spans: ServedCalls | None = None
    ) -> None:
        """`spans`: None: no call is traced."""
        self.callers = callers
        self.rooms = rooms
        self.audit = audit
        self.metrics = metrics
        self.spans = spans
        self.queue = Queue()
        self.is_cut = False

    def cut(self) -> None:
        """From now on the server ends running calls."""
        self.is_cut = True

    def point(self, name: str, scope: str, handler: Point) -> Wrapped:
        """Wraps a handler. It returns the answer's bytes."""
        seconds = self.metrics.seconds.labels(name)

        def run(request: Any, context: Context) -> bytes:
            with seconds.time(), _CallLifecycle(name, self) as way:
                message = handler(request, way.enter(context, scope))
                way.answered(message)
                answer = message.SerializeToString()
                if len(answer) > MAX_ANSWER_BYTES:
                    raise too_big("the answer", len(answer))
                return answer

        return run

    def unary(self, name: str, scope: str, handler: Unary) -> Wrapped:
        seconds = self.metrics.seconds.labels(name)

        async def run(request: Any, context: Context) -> Message:
            with seconds.time(), _CallLifecycle(name, self) as way:
                call = way.enter(context, scope)
                with self.rooms.calls.of(call.caller.identity):
                    answer = await handler(request, call)
                    if answer.ByteSize() > MAX_ANSWER_BYTES:
                        raise too_big("the answer", answer.ByteSize())
                    way.answered(answer)
                    return answer

        return run

    def streaming(self, name: str, scope: str, handler: Streaming) -> Wrapped:
        async def run(request: Any, context: Context) -> AsyncIterator[bytes]:
            with self.metrics.streams.track_inprogress(), _CallLifecycle(name, self) as way:
                call = way.enter(context, scope)
                with self.rooms.streams.of(call.caller.identity):
                    async with aclosing(handler(request, call)) as answers:
                        async for answer in answers:
                            way.rows += 1
                            way.note_personal(STREAMING)  # a stream may never end
                            yield answer

        return run

    @contextmanager
    def anybodys_stream(self, context: Context) -> Iterator[None]:
        """Counts a stream that needs no token. Raises Abort if there are too many."""
        try:
            with self.rooms.streams.of(machine(context.peer())):
                yield
        except Failure as e:
            raise Abort(e.code, e.message, e.trailers()) from None


def too_big(title: str, size: int) -> Failure:
    """`title`: of the record that is too big, or of the answer."""
    message = f"{title}: expected at most {MAX_ANSWER_BYTES:,} bytes, found {size:,}; ask for less, or in Avro"
    return Failure("TOO_BIG", message, metadata={"bytes": str(size), "most": str(MAX_ANSWER_BYTES)})


def title_of(message: Any) -> str:
    """Returns what a record, change or key in an answer is, for `too_big`."""
    record = message.after if "after" in message.DESCRIPTOR.fields_by_name else message
    if "name" in record.DESCRIPTOR.fields_by_name:
        return " ".join(part for part in (record.name.state, record.name.key, record.name.id) if part)
    return str(getattr(record, "user_id", "one record"))


def rows_of(answer: Message) -> int:
    """Returns how many records an answer has: the length of its first list of messages, or 1 if it has no such list."""
    name = _list_of(answer.DESCRIPTOR)
    return len(getattr(answer, name)) if name else 1


@functools.cache
def _list_of(answer: Descriptor) -> str:
    return next((f.name for f in answer.fields if f.is_repeated and f.message_type is not None), "")


_OK: Final = grpc.StatusCode.OK.name
STREAMING: Final = "STREAMING"  # the outcome in the audit log of reads by a running stream


class _CallLifecycle:
    """The lifecycle of a call: its caller, and at the end its status, its count and its line in the audit log."""

    def __init__(self, name: str, calls: Calls) -> None:
        self.name = name
        self.calls = calls
        self.call: Call | None = None
        self.span: OpenCall | None = None
        self.rows = 0  # of a stream: its messages

    def enter(self, context: Context, scope: str) -> Call:
        """Raises Failure if the caller lacks the scope, or if the deadline has passed."""
        if self.calls.spans is not None:
            self.span = self.calls.spans.serve(context.method(), context.invocation_metadata() or ())
        caller = self.calls.callers.caller(context)
        caller.require(scope)
        call = self.call = Call(caller, context, queue=self.calls.queue)
        call.check_deadline()
        return call

    def answered(self, answer: Message) -> None:
        if self.span is not None:
            self.rows = rows_of(answer)

    def __enter__(self) -> _CallLifecycle:
        return self

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        """Turns a Failure into an Abort. Other errors pass unchanged, and the transport logs them. Any other end (the
        task was cancelled, the stream closed) comes from the caller or from the server's shutdown."""
        if error is None:
            self._note(_OK)
        elif isinstance(error, Failure | ReplicaError):
            failure = error if isinstance(error, Failure) else of_store(error)
            abort = Abort(failure.code, failure.message, failure.trailers())
            self._note(failure.code.name)
            try:
                raise abort from None
            finally:
                del abort  # its traceback has this frame, and the cycle would keep the call until a garbage collection
        elif isinstance(error, Exception):
            self._note(grpc.StatusCode.INTERNAL.name)
        else:
            self._note((grpc.StatusCode.UNAVAILABLE if self.calls.is_cut else grpc.StatusCode.CANCELLED).name)

    def _note(self, code: str) -> None:
        self.calls.metrics.calls.labels(self.name, code).inc()
        if self.call is not None:
            self.calls.metrics.unreadable.inc(self.call.unreadable)
        self.note_personal(code)
        if self.span is not None:
            version = None if self.call is None else self.call.version
            shown = "" if version is None else str(version)
            self.span.end(grpc.StatusCode[code].value[0], Answered(self.rows, shown))

    def note_personal(self, outcome: str) -> None:
        """Writes a line to the audit log if there is anything new to record."""
        call = self.call
        if call is not None and (call.touched or call.changed):
            self.calls.audit.write(self.name, call.caller, call.touched, call.version, outcome, call.changed)
            call.touched = []
