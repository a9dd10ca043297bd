"""The kinds of RPC methods: unary or streaming, answered at once or by a task.

A method is called with the context of each of its calls as it arrives, and does all the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from moneystate.log import get_log
from moneystate.rpc.context import NO_FLAGS, Abort, CallCancelled, Context
from moneystate.rpc.core import cygrpc

log = get_log(__name__)

Parse = Callable[[bytes], Any]
Start = Callable[[Context], bool]  # says whether it left work to asyncio
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

UNREADABLE: Final = "expected a request of this method, found bytes that are none"
NO_REQUEST: Final = "expected one request, found none"


def unimplemented(context: Context) -> bool:
    """A Start for methods that the server does not have."""
    missing = context.status(grpc.StatusCode.UNIMPLEMENTED, "expected a method of this server")
    context.start((*missing, _close()), _nothing)
    return False


def point(parse: Parse, handler: Callable[[Any, Context], bytes]) -> Start:
    """`handler`: a plain function, that answers at once: the message's bytes."""

    def start(context: Context) -> bool:
        def received(event: cygrpc.BatchOperationEvent) -> bool:
            try:
                request = _parsed(parse, event.batch_operations[0].message())
                operations = context.answer(handler(request, context))
            except Exception as e:
                operations = _ending(context, e)
            # the close comes with it: there is nobody to tell of it
            context.start((*operations, _close()), _nothing)
            return False

        context.start((cygrpc.ReceiveMessageOperation(NO_FLAGS),), received)
        return False

    return start


def unary(parse: Parse, handler: Callable[[Any, Context], Any], spawn: Spawn) -> Start:
    """`handler`: a coroutine function, that gives the answer."""

    async def run(context: Context) -> None:
        request = _parsed(parse, await context.read())
        answer = await handler(request, context)
        await context.batch(*context.answer(answer.SerializeToString()))

    return _as_task(run, spawn)


def server_stream(parse: Parse, handler: Callable[[Any, Context], Any], spawn: Spawn) -> Start:
    """`handler`: gives its answers one by one, or is a coroutine function that writes them to the context."""

    async def run(context: Context) -> None:
        request = _parsed(parse, await context.read())
        await _answer_all(handler(request, context), context)

    return _as_task(run, spawn)


def bidi_stream(parse: Parse, handler: Callable[[Any, Context], Any], spawn: Spawn) -> Start:
    async def requests(context: Context) -> AsyncIterator[Any]:
        while (message := await context.read()) is not None:
            yield _parsed(parse, message)

    async def run(context: Context) -> None:
        await _answer_all(handler(requests(context), context), context)

    return _as_task(run, spawn)


async def _answer_all(answers: Any, context: Context) -> None:
    if inspect.isawaitable(answers):
        await answers
    else:
        try:
            async for answer in answers:
                await context.write(answer)
        finally:
            await answers.aclose()
    await context.batch(*context.status(grpc.StatusCode.OK))


def _as_task(run: Callable[[Context], Any], spawn: Spawn) -> Start:
    """The task is cancelled once the caller is gone, the call's deadline has passed, or the server cuts the call."""

    async def whole(context: Context) -> None:
        try:
            await run(context)
        except CallCancelled:
            pass
        except asyncio.CancelledError:
            context.raw.cancel()  # by whomever: a call that nobody answers must not stay open
            raise
        except Exception as e:
            with contextlib.suppress(CallCancelled):
                await context.batch(*_ending(context, e))

    def start(context: Context) -> bool:
        task = spawn(whole(context))

        def closed(event: cygrpc.BatchOperationEvent) -> bool:
            if event.batch_operations[0].cancelled():
                task.cancel()
            return True

        context.start((_close(),), closed)
        return True

    return start


def _ending(context: Context, error: Exception) -> tuple[Any, ...]:
    if isinstance(error, Abort):
        return context.status(error.code, error.details, error.trailers)
    log.error(f"{context.method()}: unforeseen {type(error).__name__}", exc_info=error)
    return context.status(grpc.StatusCode.INTERNAL, "an error of the server; its log has more")


def _parsed(parse: Parse, message: bytes | None) -> Any:
    if message is None:
        raise Abort(grpc.StatusCode.UNIMPLEMENTED, NO_REQUEST)
    try:
        return parse(message)
    except DecodeError:
        raise Abort(grpc.StatusCode.INTERNAL, UNREADABLE) from None


def _close() -> cygrpc.ReceiveCloseOnServerOperation:
    return cygrpc.ReceiveCloseOnServerOperation(NO_FLAGS)


def _nothing(_: Any) -> bool:
    return False
