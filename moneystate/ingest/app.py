"""The ASGI application: requests come in, records go out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

from moneystate.ingest import answers
from moneystate.ingest.answers import Answer, Place
from moneystate.ingest.audit import Audit
from moneystate.ingest.bodies import Documents, decompressed, documents, kind_of
from moneystate.ingest.callers import Caller, Callers, header
from moneystate.ingest.keys import RequestKey, request_key
from moneystate.ingest.metrics import Metrics
from moneystate.ingest.refusals import MAX_PROBLEMS, Found, Refused, too_large
from moneystate.ingest.room import Room
from moneystate.ingest.topics import Outgoing, Topic
from moneystate.ingest.writing import Writing
from moneystate.serving.rates import Rates

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

ROOT: Final = "/v1/"
CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LENGTH = b"content-type", b"content-encoding", b"content-length"
IDEMPOTENCY_KEY: Final = b"idempotency-key"
POST: Final = "POST"
ITEMS_AT_ONCE: Final = 200  # some milliseconds


@dataclass(frozen=True)
class Limits:
    """The limits of requests, in this process."""

    body_bytes: int = 1 << 20  # of a request, also after it is decompressed
    records: int = 10_000  # of a request
    open_bytes: int = 64 << 20  # of all bodies at once
    rate: float = 0.0  # records a second of a caller; 0: none


class Ingest:
    """Takes requests. FastAPI's pages have all paths that are not below `/v1/`."""

    def __init__(
        self, topics: Mapping[str, Topic], callers: Callers, writing: Writing, limits: Limits, metrics: Metrics,
        audit: Audit, pages: App, sockets: App,
    ) -> None:  # fmt: skip
        self.topics = topics
        self.callers = callers
        self.writing = writing
        self.limits = limits
        self.metrics = metrics
        self.audit = audit
        self.rates = Rates(limits.rate)
        self.room = Room(limits.open_bytes)
        self._pages = pages
        self._sockets = sockets

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets(scope, receive, send)
        elif scope["type"] != "http" or not scope["path"].startswith(ROOT):
            await self._pages(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Any, receive: Receive, send: Send) -> None:
        replayed, retry_s = False, 0.0
        name = scope["path"][len(ROOT) :]
        try:
            answer, replayed = await self._answer(name, scope, receive)
            code = str(answer.status)
        except Refused as e:
            answer, retry_s, code = answers.refusal(e), e.retry_s, e.code
        self.metrics.request(name if name in self.topics else "", code)
        headers = answers.headers_of(answer, retry_s, replayed)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, name: str, scope: Any, receive: Receive) -> tuple[Answer, bool]:
        """The answer, and whether it is that of an earlier request. Raises Refused."""
        began_s = time.monotonic()
        caller = None
        try:
            caller = self.callers.caller(scope)
            bounds = caller.bounds(name)
            topic = self.topic(name)
            if scope["method"] != POST:
                raise Refused("METHOD_NOT_ALLOWED", "expected POST.")
            taken = self.room.enter()
            try:
                body = await self._body(scope["headers"], receive, taken.grow)
                request = Request(self, topic, caller, scope, body, taken.grow)
                answer, replayed = await request.answer(topic.headers_of(scope["headers"]), bounds)
            finally:
                taken.leave()
        except Refused as e:
            self.audit.refused(caller, scope, name, e)
            raise
        self.audit.written(caller, name, request.written, answer.status)
        self.metrics.written(name, request.written, time.monotonic() - began_s)
        return answer, replayed

    def topic(self, name: str) -> Topic:
        """Raises Refused."""
        topic = self.topics.get(name)
        if topic is None:
            raise Refused("UNKNOWN_TOPIC", "expected a topic that is declared here; /openapi.json has them.")
        return topic

    async def _body(self, headers: Any, receive: Receive, grow: Callable[[int], None]) -> bytes:
        """The body as it was sent. Raises Refused as soon as it is too large."""
        most = self.limits.body_bytes
        length = header(headers, CONTENT_LENGTH)
        if length.isdigit() and int(length) > most:
            raise too_large(most)
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Refused("BAD_BODY", "the caller has gone.")
            part = message.get("body", b"")
            size += len(part)
            grow(len(part))
            if size > most:
                raise too_large(most)
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def check_rate(self, caller: Caller, records: int) -> None:
        """Raises Refused."""
        wait_s = self.rates.take(caller.identity, caller.rights.rate, records, time.monotonic())
        if wait_s:
            raise Refused("TOO_FAST", "expected fewer records a second of this caller.", retry_s=wait_s)


class Request:
    """A request whose caller may write the topic."""

    def __init__(
        self, ingest: Ingest, topic: Topic, caller: Caller, scope: Any, body: bytes, grow: Callable[[int], None]
    ) -> None:
        """`grow`: takes room for what becomes of the body. Raises Refused."""
        self.written = 0  # records, once it is answered
        self._ingest = ingest
        self._topic = topic
        headers = scope["headers"]
        kind = kind_of(header(headers, CONTENT_TYPE))
        sent = len(body)
        body = decompressed(body, header(headers, CONTENT_ENCODING), ingest.limits.body_bytes)
        grow(max(0, len(body) - sent))
        self._is_partial = _is_partial(scope["query_string"])
        self._documents: Documents = documents(kind, body, ingest.limits.records)
        ingest.check_rate(caller, len(self._documents.items))
        self._key: RequestKey | None = None
        key = header(headers, IDEMPOTENCY_KEY)
        if key or any(name == IDEMPOTENCY_KEY for name, _ in headers):
            way = f"{kind.value} {self._is_partial}"
            self._key = request_key(caller.identity, key, topic.name, way, body)

    async def answer(self, headers: Mapping[str, bytes | None], bounds: Any) -> tuple[Answer, bool]:
        """Raises Refused."""
        outgoing = partial(self._topic.outgoing, headers=headers, bounds=bounds)
        items, is_many = self._documents
        if not is_many and self._key is None:
            place = await self._ingest.writing.one(outgoing(items[0], None))
            self.written = 1
            return answers.one(place), False
        if is_many and self._is_partial:
            return await self._partial([_or_refused(outgoing, item, n) async for n, item in _paced(items)])
        records = await _all(outgoing, items, is_many)
        to_answer = answers.many if is_many else _of_one
        return await self._together(records, to_answer)

    async def _partial(self, records: list[Outgoing | Refused]) -> tuple[Answer, bool]:
        """Each record by itself; with a key, the valid ones together."""
        good = [record for record in records if isinstance(record, Outgoing)]
        if self._key is not None and good:
            return await self._together(good, lambda places: answers.by_index(_merged(records, places)))
        results = await self._ingest.writing.each(records)
        self.written = sum([not isinstance(result, Refused) for result in results])
        return answers.by_index(results), False

    async def _together(self, records: list[Outgoing], to_answer: Callable[[Any], Answer]) -> tuple[Answer, bool]:
        answer, replayed = await self._ingest.writing.together(records, self._key, to_answer)
        self.written = 0 if replayed else len(records)
        return answer, replayed


def _of_one(places: list[Place]) -> Answer:
    return answers.one(places[0])


def _merged(records: list[Outgoing | Refused], places: Any) -> list[Place | Refused]:
    """The places of those records that have one, between the others."""
    left = iter(places)
    return [record if isinstance(record, Refused) else next(left) for record in records]


def _or_refused(outgoing: Callable[[Any, int], Outgoing], item: Any, index: int) -> Outgoing | Refused:
    try:
        return outgoing(item, index)
    except Refused as e:
        return e


async def _paced(items: list[Any]) -> AsyncIterator[tuple[int, Any]]:
    """The items with their numbers. Other requests get their turn in between."""
    for number, item in enumerate(items):
        if number and number % ITEMS_AT_ONCE == 0:
            await asyncio.sleep(0)
        yield number, item


async def _all(outgoing: Callable[[Any, int | None], Outgoing], items: list[Any], is_many: bool) -> list[Outgoing]:
    """Raises Refused with the problems of all records, if there are any."""
    records: list[Outgoing] = []
    problems: list[Found] = []
    first: Refused | None = None
    async for number, item in _paced(items):
        try:
            records.append(outgoing(item, number if is_many else None))
        except Refused as e:
            first = first or e
            problems += e.problems or [Found(number if is_many else None, "", e.message)]
            if len(problems) >= MAX_PROBLEMS:
                break
    if first is not None:
        raise Refused(first.code, first.message, problems)
    return records


def _is_partial(query: bytes) -> bool:
    return bool(query) and parse_qs(query.decode("latin-1")).get("partial") == ["true"]
