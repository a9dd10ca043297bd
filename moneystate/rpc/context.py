"""The context of a call, as its handler sees it: the used part of `grpc.aio.ServicerContext`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import Message

from moneystate.rpc.core import cygrpc

Metadata = Iterable[tuple[str, str | bytes]]

NO_FLAGS: Final = 0


class Abort(Exception):
    """Ends a call with a status."""

    def __init__(self, code: grpc.StatusCode, details: str = "", trailers: Metadata = ()) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.trailers = tuple(trailers)  # metadata that goes with the status


class CallCancelled(Exception):
    """The caller is, or the call was cancelled: nothing can be sent any more."""


class Context:
    """A call that a handler answers."""

    __slots__ = ("begun", "event", "raw")

    def __init__(self, event: cygrpc.RequestCallEvent) -> None:
        self.event = event  # the C core's event of the call's arrival
        self.raw = event.call
        self.begun = False

    def method(self) -> str:
        """The name that the caller has for it: /package.Service/Method."""
        return str(self.event.call_details.method.decode("utf-8", "replace"))

    def peer(self) -> str:
        return str(self.raw.peer().decode("utf-8", "replace"))

    def invocation_metadata(self) -> Metadata:
        metadata: Metadata = self.event.invocation_metadata
        return metadata

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Returns what the certificates of a TLS connection say."""
        known = cygrpc.auth_context(self.raw) or {}
        return {key if isinstance(key, str) else key.decode(): values for key, values in known.items()}

    def time_remaining(self) -> float:
        """Seconds to the call's deadline; very many where it has none."""
        return float(self.event.call_details.deadline) - time.time()

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        raise Abort(code, details, trailing_metadata)

    async def write(self, message: Message | bytes) -> None:
        """One message of a stream; bytes: it is encoded. Raises CallCancelled."""
        encoded = message if isinstance(message, bytes) else message.SerializeToString()
        send = cygrpc.SendMessageOperation(encoded, NO_FLAGS)
        await self.batch(*self._opening(), send)

    async def read(self) -> bytes | None:
        """The next message of the caller; None: there are no more."""
        read = cygrpc.ReceiveMessageOperation(NO_FLAGS)
        await self.batch(read)
        message: bytes | None = read.message()
        return message

    def start(self, operations: tuple[Any, ...], tag: Any) -> None:
        """Hand operations to the C core; `tag`: as `moneystate.rpc.loop` wants it. RuntimeError: the call is over."""
        error = self.raw.start_server_batch(operations, tag)
        if error:
            self.raw.cancel()
            raise RuntimeError(f"gRPC's C core refused operations of a call: error {error}")

    async def batch(self, *operations: Any) -> None:
        """Waits until the operations are done. Raises CallCancelled."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def ended(event: cygrpc.BatchOperationEvent) -> bool:
            if not done.cancelled():
                done.set_result(event.success)
            return True

        self.start(operations, ended)
        if not await done:
            raise CallCancelled

    def status(self, code: grpc.StatusCode, details: str = "", trailers: Metadata = ()) -> tuple[Any, ...]:
        """Operations that end the call; nothing may be sent after them."""
        number, trailing = code.value[0], tuple(trailers) or None
        return (*self._opening(), cygrpc.SendStatusFromServerOperation(trailing, number, details, NO_FLAGS))

    def answer(self, message: bytes) -> tuple[Any, ...]:
        """Operations that end the call with one message."""
        return (
            *self._opening(),
            cygrpc.SendMessageOperation(message, NO_FLAGS),
            cygrpc.SendStatusFromServerOperation(None, cygrpc.StatusCode.ok, b"", NO_FLAGS),
        )

    def _opening(self) -> tuple[Any, ...]:
        """Initial metadata goes out once, with what is sent first."""
        if self.begun:
            return ()
        self.begun = True
        return (cygrpc.SendInitialMetadataOperation(None, NO_FLAGS),)
