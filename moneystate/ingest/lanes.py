"""Writes requests in Kafka transactions: all records of a request, and its idempotency key, or nothing.

A lane has a transactional producer. The lane of a key partition has the same transactional id in all processes:

1. *fenced*: `init_transactions` ends the transaction that a predecessor left open, and fences the predecessor. A crash
   after it leaves nothing behind.
2. *read*: the key partition from where this process left off to its end. Only this transactional id writes to the
   partition, so after step 1 its end is final: a key that is not there was not written.
3. *produced*: the records of all requests that wait. A crash leaves an open transaction, which step 1 of the next owner
   aborts, or the broker after `TRANSACTION_MS`.
4. *kept*: the keys with their answers, in the same transaction. They need the offsets of step 3. As 3.
5. *committed*: records and keys are visible together. Only now are the requests answered. After a crash before the
   answer, the next owner finds the keys at step 2.

The process goes on with 3 to 5 until another one fences it, which it notices at its next transaction. If it cannot tell
how a transaction ended, it begins at 1 and finds out at 2. The last lane has no keys and an id of its own. It writes
requests of several records that have no key.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import KafkaException

from moneystate.errors import MoneystateError
from moneystate.ingest.answers import Answer, Place
from moneystate.ingest.deliveries import (
    RETRY_S,
    Deliveries,
    Undelivered,
    too_large_for_topic,
    unavailable,
    unknown_outcome,
)
from moneystate.ingest.key_log import Tail
from moneystate.ingest.keys import Kept, Keys, RequestKey, encode
from moneystate.ingest.refusals import Refused
from moneystate.ingest.topics import Outgoing
from moneystate.log import get_log

_log = get_log(__name__)

Result = TypeVar("Result")

TRANSACTION_MS: Final = 10_000
CALL_S: Final = 10.0  # the longest that one call to the transaction coordinator may take
RECORDS_AT_ONCE: Final = 10_000  # in one transaction, unless a single request has more
# Two processes that get requests for one key partition fence each other by turns. The one that was fenced waits longer
# than a transaction takes, so that both get on.
PAUSE_S: Final = (0.05, 0.25)
CLIENT_ERRORS: Final = (KafkaException, SystemError)  # the latter where a callback ran after a fatal error
TO_BLAME: Final = ("RECORD_TOO_LARGE", "QUEUE_FULL")  # refusals that one request alone may cause


@dataclass(eq=False)
class Write:
    """A request that is to be written."""

    records: Sequence[Outgoing]
    key: RequestKey | None
    answer: Callable[[Sequence[Place]], Answer]
    done: asyncio.Future[tuple[Answer, bool]]  # the answer, and whether an earlier request got it
    deadline_s: float  # by the loop's clock
    may_be_written: bool = False  # by a transaction whose end is not known


class Tails(Protocol):
    """Describes where the keys of a lane are read, as `KeyLog` does it."""

    topic: str

    def tail(self, partition: int, position: int | None, kept_since_ms: int) -> Tail: ...


class _Unknown(Exception):
    """How a transaction ended is not known, or this producer has lost its partition."""


class Lane:
    """One transactional id."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Deliveries],
        executor: Executor,
        log: Tails | None = None,
        partition: int = 0,
        keep_ms: int = 0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`log`: the key partitions; None: the lane has no keys."""
        self.name = name
        self.keys = Keys(keep_ms)
        self.takeovers = 0
        self._connect = connect
        self._executor = executor
        self._log = log
        self._partition = partition
        self._now_ms = now_ms
        self._position: int | None = None
        self._deliveries: Deliveries | None = None
        self._waiting: deque[Write] = deque()
        self._in_progress: set[bytes] = set()
        self._task: asyncio.Task[None] | None = None

    def write(self, write: Write) -> None:
        """Raises Refused for a key that is in progress."""
        if write.key is not None:
            if write.key.digest in self._in_progress:
                raise Refused("KEY_IN_PROGRESS", "a request with this Idempotency-Key is in progress.", retry_s=RETRY_S)
            digest = write.key.digest
            self._in_progress.add(digest)
            write.done.add_done_callback(lambda _: self._in_progress.discard(digest))
        self._waiting.append(write)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def read(self) -> None:
        """Step 2 alone, so that a takeover finds little to read. Raises BrokerError and SetupError."""
        assert self._log is not None
        tail = await self._call(self._log.tail, self._partition, self._position, self._now_ms() - self.keys.keep_ms)
        for digest, entry in tail.entries:
            self.keys.add(digest, entry)
        self._position = tail.end

    def expire(self) -> None:
        """Frees the memory of keys that no longer count."""
        self.keys.expire(self._now_ms())

    async def close(self) -> None:
        """Ends once nothing waits."""
        while self._task is not None:
            await self._task
        await self._disconnect()

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._turn(self._next())
        finally:
            self._task = None

    def _next(self) -> list[Write]:
        taken: list[Write] = []
        records = 0
        while self._waiting and (not taken or records + len(self._waiting[0].records) <= RECORDS_AT_ONCE):
            write = self._waiting.popleft()
            if write.done.done():  # its caller was told that it took too long, and may have sent it again
                continue
            taken.append(write)
            records += len(write.records)
        return taken

    async def _turn(self, writes: list[Write]) -> None:
        """Answers all of them, sooner or later."""
        try:
            if self._deliveries is None:
                await self._take_over()
            await self._write([write for write in writes if not self._is_kept(write)])
        except _Unknown:
            await self._disconnect()
            self._again(writes)
            await asyncio.sleep(random.uniform(*PAUSE_S))
        except MoneystateError as e:  # the key partition cannot be read
            _log.error("keys cannot be read", lane=self.name, exc_info=e)
            await self._disconnect()
            _give_up(writes)
        except Exception as e:
            _log.error("an unforeseen error", lane=self.name, exc_info=e)
            await self._disconnect()
            _refuse(writes, unknown_outcome())

    def _again(self, writes: list[Write]) -> None:
        """Puts back those that may be tried again: of a request with a key, step 2 tells whether it was written."""
        now_s = asyncio.get_running_loop().time()
        for write in reversed(writes):
            if write.done.done():
                continue
            if now_s < write.deadline_s and (write.key is not None or not write.may_be_written):
                self._waiting.appendleft(write)
            else:
                _give_up([write])

    def _is_kept(self, write: Write) -> bool:
        """Whether an earlier request with its key has got an answer. Then it is answered."""
        if write.key is None:
            return False
        try:
            answer = self.keys.find(write.key, self._now_ms())
        except Refused as e:
            _refuse([write], e)
            return True
        if answer is not None and not write.done.done():
            write.done.set_result((answer, True))
        return answer is not None

    async def _take_over(self) -> None:
        """Steps 1 and 2. Raises _Unknown, and what `read` raises."""
        self._deliveries = self._connect()
        try:
            await self._call(self._deliveries.producer.init_transactions, CALL_S)
        except CLIENT_ERRORS:
            raise _Unknown from None
        self.takeovers += 1
        if self._log is not None:
            await self.read()

    async def _write(self, writes: list[Write]) -> None:
        """Steps 3 to 5. Raises _Unknown. Otherwise they have been answered."""
        if not writes:
            return
        assert self._deliveries is not None
        producer = self._deliveries.producer
        try:
            producer.begin_transaction()
            answers, position = await self._produce(writes)
            await self._call(producer.commit_transaction, CALL_S)
        except (*CLIENT_ERRORS, Undelivered, Refused) as e:
            await self._abort(e, writes)
            await self._one_by_one(writes, refused_by(e))
            return
        self._position = position
        now_ms = self._now_ms()
        for write, answer in zip(writes, answers, strict=True):
            if write.key is not None:
                self.keys.add(write.key.digest, Kept(write.key.body, answer, now_ms))
            if not write.done.done():
                write.done.set_result((answer, False))

    async def _produce(self, writes: list[Write]) -> tuple[list[Answer], int | None]:
        """Steps 3 and 4. Returns also the position after the keys."""
        places = await self._sent([(record, None) for write in writes for record in write.records])
        answers: list[Answer] = []
        for write in writes:
            answers.append(write.answer(places[: len(write.records)]))
            places = places[len(write.records) :]
        key_places = await self._sent(
            [
                (Outgoing(self._log.topic, write.key.digest, encode(write.key, answer), None), self._partition)
                for write, answer in zip(writes, answers, strict=True)
                if write.key is not None and self._log is not None
            ]
        )
        return answers, max((offset + 1 for _, offset in key_places), default=self._position)

    async def _sent(self, records: Sequence[tuple[Outgoing, int | None]]) -> list[Place]:
        assert self._deliveries is not None
        futures: list[asyncio.Future[Place]] = []
        try:
            for record, partition in records:
                futures.append(self._deliveries.send(record, partition))
            return await asyncio.gather(*futures)
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    async def _abort(self, cause: Exception, writes: list[Write]) -> None:
        """Aborts a transaction after an error. Raises _Unknown unless nothing was written for certain."""
        assert self._deliveries is not None
        try:
            if not _is_abortable(cause):
                raise cause
            await self._call(self._deliveries.producer.abort_transaction, CALL_S)
        except (*CLIENT_ERRORS, Undelivered):
            for write in writes:
                write.may_be_written = True
            raise _Unknown from None

    async def _one_by_one(self, writes: list[Write], cause: Refused) -> None:
        """Writes the requests one by one after an abort, so that only the one to blame for it is refused."""
        if len(writes) > 1 and cause.code in TO_BLAME:
            for write in writes:
                await self._write([write])
        else:
            _refuse(writes, cause)

    async def _disconnect(self) -> None:
        deliveries, self._deliveries = self._deliveries, None
        if deliveries is not None:
            deliveries.let_go()
            await self._call(_end, deliveries)

    async def _call(self, call: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)


def _end(deliveries: Deliveries) -> None:
    """Ends a producer, whose transaction the broker or the next owner aborts."""
    with suppress(*CLIENT_ERRORS):
        deliveries.producer.purge()
        deliveries.producer.close()


def _is_abortable(cause: Exception) -> bool:
    """False: the producer was fenced, or how a commit ended is not known."""
    if isinstance(cause, KafkaException):
        return bool(cause.args[0].txn_requires_abort())
    return not isinstance(cause, SystemError) and not (isinstance(cause, Undelivered) and cause.error.fatal())


def _give_up(writes: Sequence[Write]) -> None:
    for write in writes:
        _refuse([write], unknown_outcome() if write.may_be_written else unavailable())


def refused_by(cause: Exception) -> Refused:
    """Returns what callers are told after an abort."""
    if isinstance(cause, Refused):
        return cause
    if isinstance(cause, Undelivered) and cause.is_too_large:
        return too_large_for_topic()
    return unavailable()


def _refuse(writes: Sequence[Write], refused: Refused) -> None:
    for write in writes:
        if not write.done.done():
            write.done.set_exception(refused)
