"""WebSockets: frames `{"id": ..., "record": {...}}`, each answered by `{"id": ..., "partition": ..., "offset": ...}` or
`{"id": ..., "error": ...}`.

Answers come as Kafka confirms the records, not in the order of the frames. A connection that has `OPEN_FRAMES` open
frames is not read until some are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.ingest.answers import Place
from moneystate.ingest.app import ROOT, Ingest
from moneystate.ingest.bodies import as_json
from moneystate.ingest.deliveries import Undelivered
from moneystate.ingest.deliveries import refused as refused_by
from moneystate.ingest.refusals import Refused
from moneystate.ingest.topics import Topic
from moneystate.records.json_number import Number
from moneystate.records.json_text import MAX_RECORD_LEVELS, canonical_text, decoded, parse

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

OPEN_FRAMES: Final = 1_000
GOING_AWAY: Final = 1001
POLICY: Final = 1008  # the token grants nothing any more
NO_ID: Final = b"null"
NO_MORE: Final = ("NO_TOKEN", "BAD_TOKEN", "TOPIC_NOT_GRANTED")


class Sockets:
    """All WebSockets of this process."""

    def __init__(self) -> None:
        self.ingest: Ingest | None = None  # set once both exist
        self._open: set[_Socket] = set()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        assert self.ingest is not None
        await receive()  # websocket.connect
        try:
            topic = self._topic(self.ingest, scope)
        except Refused as e:
            self.ingest.metrics.request("", e.code)
            await _reject(send, e)
            return
        await send({"type": "websocket.accept"})
        socket = _Socket(self.ingest, topic, scope, send)
        self._open.add(socket)
        self.ingest.metrics.sockets += 1
        try:
            await socket.run(receive)
        finally:
            self._open.discard(socket)
            self.ingest.metrics.sockets -= 1

    def _topic(self, ingest: Ingest, scope: Any) -> Topic:
        """Raises Refused."""
        name = scope["path"].removeprefix(ROOT)
        caller = None
        try:
            caller = ingest.callers.caller(scope)
            caller.bounds(name)
            return ingest.topic(name)
        except Refused as e:
            ingest.audit.refused(caller, scope, name, e)
            raise

    async def drain(self) -> None:
        """Takes no more frames, and ends once those that are open have been answered."""
        await asyncio.gather(*[socket.drain() for socket in list(self._open)])


@dataclass(eq=False)
class _Socket:
    ingest: Ingest
    topic: Topic
    scope: Any
    send: Send
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPEN_FRAMES))
    answers: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    open: int = 0
    closing: int | None = None  # the code to close with; None: the caller has gone

    async def drain(self) -> None:
        self.stopping.set()
        await self.ended.wait()

    async def run(self, receive: Receive) -> None:
        answering = asyncio.create_task(self._answer())
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await self._read(receive, stopping)
            for _ in range(OPEN_FRAMES):  # until no frame is open
                await self.room.acquire()
        finally:
            stopping.cancel()
            self.answers.put_nowait(None)
            await answering
            if self.closing is not None:
                with suppress(OSError):
                    await self.send({"type": "websocket.close", "code": self.closing})
            self.ended.set()

    async def _read(self, receive: Receive, stopping: asyncio.Task[Any]) -> None:
        headers = self.topic.headers_of(self.scope["headers"])
        while True:
            await self.room.acquire()
            message = await self._next(receive, stopping)
            if message is None:
                self.room.release()
                return
            if not self._take(message, headers):
                return

    async def _next(self, receive: Receive, stopping: asyncio.Task[Any]) -> Message | None:
        """The next frame; None: there is none, or no more is taken."""
        receiving = asyncio.ensure_future(receive())
        await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            receiving.cancel()
            self.closing = GOING_AWAY
            return None
        message = receiving.result()
        return message if message["type"] == "websocket.receive" else None

    def _take(self, message: Message, headers: Any) -> bool:
        """Whether the connection goes on. `_done` gives back the frame's place, at once or later."""
        text = message.get("text")
        answer_id = NO_ID
        try:
            answer_id, document = frame_of(message.get("bytes") or b"" if text is None else text)
            caller = self.ingest.callers.caller(self.scope)  # the token may have expired, or its key may be gone
            self.ingest.check_rate(caller, 1)
            outgoing = self.topic.outgoing(document, None, headers, caller.bounds(self.topic.name))
            future = self.ingest.writing.send(outgoing)
        except Refused as e:
            self._done(answer_id, e)
            if e.code in NO_MORE:
                self.closing = POLICY
            return e.code not in NO_MORE
        future.add_done_callback(lambda done: self._done(answer_id, _result(done)))
        return True

    def _done(self, answer_id: bytes, result: Place | Refused) -> None:
        name = self.topic.name
        if isinstance(result, Refused):
            members = result.plain()
            if result.retry_s:
                members["retryAfter"] = result.retry_s
            self.ingest.metrics.request(name, result.code)
            self.answers.put_nowait(b'{"id":%b,%b' % (answer_id, as_json(members)[1:]))
        else:
            self.ingest.metrics.request(name, "frame")
            self.answers.put_nowait(b'{"id":%b,"partition":%d,"offset":%d}' % (answer_id, *result))
        self.room.release()

    async def _answer(self) -> None:
        while (answer := await self.answers.get()) is not None:
            with suppress(OSError):  # the caller has gone
                await self.send({"type": "websocket.send", "text": answer.decode()})


def _result(future: asyncio.Future[Place]) -> Place | Refused:
    error = future.exception()
    if isinstance(error, Undelivered):
        return refused_by(error)
    return future.result()


def frame_of(content: str | bytes) -> tuple[bytes, Any]:
    """The id as JSON, and the record. Raises Refused."""
    try:
        frame = parse(content if isinstance(content, str) else decoded(content), MAX_RECORD_LEVELS + 1)
    except Malformed as e:
        raise Refused("BAD_BODY", f"expected JSON, but {e}.") from None
    if type(frame) is not dict or "record" not in frame or type(frame.get("id")) not in (str, Number):
        raise Refused("BAD_BODY", "expected a frame with an id, which is a text or a number, and a record.")
    return canonical_text(frame["id"]).encode(), frame["record"]


async def _reject(send: Send, refused: Refused) -> None:
    """Answers the handshake by HTTP."""
    body = as_json(refused.plain())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
