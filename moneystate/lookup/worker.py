"""The worker's loop: reads requests, answers from the index or the service, writes replies exactly once.

`docs/lookups.md` numbers the steps, and says what a crash after each step leaves behind. Kafka's clients block, so
their calls run one after the other in a thread. Meanwhile the calls to the service run in the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from moneystate.engine.processor import Convert, Rejected
from moneystate.errors import BrokerError
from moneystate.kafka.client import place
from moneystate.kafka.group_transactions import Assignment, Fenced, GroupReader, GroupWriter, Polled, Written
from moneystate.log import get_log
from moneystate.lookup.breaker import Breaker, State
from moneystate.lookup.http_service import HttpService, ServiceConfig
from moneystate.lookup.index import AnswerIndex
from moneystate.lookup.limiter import Limiter
from moneystate.lookup.metrics import Metrics
from moneystate.lookup.resolver import Policy, Resolver
from moneystate.lookup.wire import Answer, Outcome, Request, Wire
from moneystate.monitoring import Health
from moneystate.runtime.lookup_plan import LookupPlan, Unusable

log = get_log(__name__)

T = TypeVar("T")

IDLE_POLL_S = 0.2
BUSY_POLL_S = 0.02  # an answer waits no longer than this for its transaction
MAX_MESSAGES = 500  # of one poll
WAITING_PER_CALL = 20  # waiting requests for each concurrent call, enough to keep all calls busy
FENCED_AGAIN_S = 300.0  # a second fencing within this time ends the worker
OFFSETS_EVERY_S = 1.0  # how often offsets are committed without a reply


@dataclass(frozen=True)
class WorkerConfig:
    """The settings of a worker."""

    lookup: LookupPlan
    bootstrap_servers: str
    group: str
    worker_id: str
    requests: str  # topic, with prefix
    results: str  # topic, with prefix
    data: Path  # folder of the answer index
    service: ServiceConfig
    policy: Policy
    extra: dict[str, str] = field(default_factory=dict)
    rate_limit: float | None = None
    breaker_threshold: int = 10
    # conversions of topics that are not in canonical form
    from_requests: Convert | None = None
    from_results: Convert | None = None
    to_results: Convert | None = None


@dataclass(eq=False)
class Waiting:
    """A request without a committed reply."""

    request: Request
    since_ms: int  # Kafka timestamp of its first record
    places: list[tuple[int, int]]  # partition and offset of all records with this request
    answer: Answer | None = None


class Progress:
    """The progress in one partition."""

    def __init__(self, start: int) -> None:
        self.position = start  # the next offset to read
        self.committed = start
        self.unanswered: dict[int, None] = {}  # offsets of unanswered requests, ascending

    def committable(self, answered: set[int]) -> int:
        """The offset up to which all requests are answered, if those at the offsets `answered` are, too."""
        return next((offset for offset in self.unanswered if offset not in answered), self.position)


@dataclass
class RequestRecord:
    """A record of the requests topic."""

    partition: int
    offset: int
    timestamp_ms: int
    request: Request | None  # None: the record is not a request
    known: bool  # the answer index has it


class Worker:
    """A lookup worker. Call `run` only once. `stop` may be called in the event loop."""

    def __init__(self, config: WorkerConfig, metrics: Metrics) -> None:
        """Raises ConfigError."""
        self.config = config
        self.metrics = metrics
        self._wire = Wire(config.lookup)
        self.breaker = Breaker(config.breaker_threshold, on_change=self._breaker_changed)
        self.service = HttpService(config.service, config.policy.concurrency)
        limiter = Limiter(config.rate_limit)
        self.resolver = Resolver(self._wire, self.service, self.breaker, limiter, config.policy, metrics)
        self.assignment: Assignment | None = None
        self.partitions: dict[int, Progress] = {}
        self.waiting: dict[bytes, Waiting] = {}
        self.answered: list[Waiting] = []
        self._stopping = False
        self._fenced_at = float("-inf")
        self._refused = False  # the last transaction was refused, so a new assignment will follow
        self._failure: BaseException | None = None
        self._thread = ThreadPoolExecutor(1, "kafka")
        self._offsets_at = 0.0
        self._index: AnswerIndex
        self._requests: GroupReader
        self._replies: GroupWriter
        metrics.watch(lambda: len(self.waiting), self.oldest_s)

    def stop(self) -> None:
        self._stopping = True

    def ready(self) -> Health:
        """Whether it answers requests."""
        if self._stopping:
            return Health(False, "stopping")
        if self.assignment is None:
            return Health(False, "starting: it has no place in the consumer group yet")
        if not self.breaker.is_closed:
            return Health(False, f"the service is down: the breaker is {self.breaker.state}")
        return Health(True, "ready")

    def oldest_s(self) -> float:
        """The age of the oldest waiting request's record. 0: no request waits."""
        oldest = min((w.since_ms for w in list(self.waiting.values())), default=None)
        return 0.0 if oldest is None else max(0.0, time.time() - oldest / 1000)

    async def run(self) -> None:
        """Runs until `stop`. Raises MoneystateError."""
        try:
            await self._kafka(self._open)
            try:
                while not self._stopping:
                    await self._turn()
                await self._write()
            finally:
                self.resolver.drop_all()
                await self._kafka(self._close)
        finally:
            self.breaker.close()
            await self.service.close()
            self._thread.shutdown()

    async def _kafka(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _open(self) -> None:
        c = self.config
        self._index = AnswerIndex(c.data, c.bootstrap_servers, c.extra, c.results, self._wire, c.from_results)
        known = self._index.catch_up()
        log.info("index read", replies=known, topic=c.results)
        self._replies = self._producer()
        self._requests = GroupReader(c.bootstrap_servers, c.extra, c.group, c.requests)
        self._requests.subscribe()

    def _producer(self) -> GroupWriter:
        c = self.config
        return GroupWriter(c.bootstrap_servers, c.extra, f"{c.group}-{c.worker_id}", c.results)

    def _close(self) -> None:
        self._requests.close()
        self._index.close()

    # One turn: steps 1 to 4 of docs/lookups.md

    async def _turn(self) -> None:
        wait_s, pause = self._poll_s(), self._is_full()
        polled, records, assignment = await self._kafka(lambda: self._poll(wait_s, pause))
        if self._failure is not None:
            raise self._failure
        if assignment is not self.assignment:
            self._start_assignment(assignment)
        for record in records:
            self._take(record)
        for partition, end in polled.ends.items():
            progress = self.partitions[partition]
            progress.position = max(progress.position, end)
        await self._write()

    def _poll_s(self) -> float:
        if self._refused or not self.waiting:
            return IDLE_POLL_S
        return 0.0 if self.answered else BUSY_POLL_S

    def _is_full(self) -> bool:
        """Whether reading must pause."""
        if not self.breaker.is_closed and len(self.resolver.running) >= self.breaker.room:
            return True
        return len(self.waiting) >= WAITING_PER_CALL * self.config.policy.concurrency

    def _poll(self, wait_s: float, pause: bool) -> tuple[Polled, list[RequestRecord], Assignment | None]:
        before = self._requests.assignment
        self._requests.pause(pause)
        polled = self._requests.poll(wait_s, MAX_MESSAGES)
        assignment = self._requests.assignment
        if assignment is not before and assignment is not None:
            # by now, all answers of the partitions' former owners are in the log
            self._index.catch_up()
        else:
            self._index.follow()
        return polled, [self._parse_request(m) for m in polled.messages], assignment

    def _parse_request(self, message: object) -> RequestRecord:
        m: Any = message
        topic, partition, offset = place(m)
        _, timestamp_ms = m.timestamp()
        try:
            request = self._wire.request(self._canonical(m.value()))
        except Rejected as e:
            self.metrics.undecodable.inc()
            log.error("not a request", topic=topic, partition=partition, offset=offset, reason=e.reason)
            return RequestRecord(partition, offset, timestamp_ms, None, known=False)
        return RequestRecord(partition, offset, timestamp_ms, request, known=request.key in self._index)

    def _canonical(self, value: bytes | None) -> bytes | None:
        convert = self.config.from_requests
        return value if value is None or convert is None else convert(value)

    def _start_assignment(self, assignment: Assignment | None) -> None:
        """Drops all waiting requests. The partitions' new owner reads them again from the committed offsets."""
        self.resolver.drop_all()
        self.waiting.clear()
        self.answered.clear()
        self.assignment = assignment
        starts = {} if assignment is None else assignment.starts
        self.partitions = {p: Progress(start) for p, start in starts.items()}
        self.metrics.assignments.inc()
        log.info("partitions", own=sorted(starts))

    def _take(self, record: RequestRecord) -> None:
        progress = self.partitions[record.partition]
        progress.position = record.offset + 1
        request = record.request
        if request is None:
            return
        if record.known:
            self.metrics.known.inc()
            return
        progress.unanswered[record.offset] = None
        place = (record.partition, record.offset)
        waiting = self.waiting.get(request.key)
        if waiting is not None:
            waiting.places.append(place)
            return
        waiting = self.waiting[request.key] = Waiting(request, record.timestamp_ms, [place])
        self.resolver.ask(request).add_done_callback(lambda task: self._answer(waiting, task))

    def _answer(self, waiting: Waiting, task: asyncio.Task[Answer]) -> None:
        if task.cancelled() or self.waiting.get(waiting.request.key) is not waiting:
            return
        error = task.exception()
        if error is not None:
            self._failure = self._failure or error
            return
        waiting.answer = task.result()
        self.answered.append(waiting)

    # Step 5

    async def _write(self) -> None:
        """Writes one transaction: the available replies, and the offsets up to which all requests are answered."""
        ready, assignment = list(self.answered), self.assignment
        if assignment is None:
            return
        offsets = self._offsets(ready)
        if not ready and not self._offsets_due(offsets):
            return
        replies = [self._reply(waiting) for waiting in ready]
        written = await self._kafka(lambda: self._transaction(ready, replies, offsets, assignment))
        self._offsets_at, self._refused = time.monotonic(), not written
        self.metrics.transactions.labels("committed" if written else "aborted").inc()
        if written:
            self._done(ready, offsets)

    def _offsets(self, ready: list[Waiting]) -> dict[int, int]:
        """The changed offsets, and those of every partition with a reply in `ready`."""
        answered: dict[int, set[int]] = {}
        for waiting in ready:
            for partition, offset in waiting.places:
                answered.setdefault(partition, set()).add(offset)
        offsets = {p: progress.committable(answered.get(p, set())) for p, progress in self.partitions.items()}
        return {p: o for p, o in offsets.items() if p in answered or o != self.partitions[p].committed}

    def _offsets_due(self, offsets: dict[int, int]) -> bool:
        return bool(offsets) and time.monotonic() - self._offsets_at >= OFFSETS_EVERY_S

    def _reply(self, waiting: Waiting) -> tuple[bytes, bytes]:
        assert waiting.answer is not None
        value = self._value(waiting, waiting.answer)
        convert = self.config.to_results
        return waiting.request.owner, value if convert is None else convert(value)

    def _value(self, waiting: Waiting, answer: Answer) -> bytes:
        """The call was made for another request of the same path, whose reply may hold an answer that this one's
        cannot."""
        now_ms = int(time.time() * 1000)
        try:
            return self._wire.reply(waiting.request, answer, now_ms)
        except Unusable as e:
            log.warning("unusable answer", reason=str(e))
            waiting.answer = Answer(Outcome.FAILED, None, answer.attempts)
            return self._wire.reply(waiting.request, waiting.answer, now_ms)

    def _transaction(
        self, ready: list[Waiting], replies: list[tuple[bytes, bytes]], offsets: dict[int, int], assignment: Assignment
    ) -> bool:
        written = [Written(self.config.results, key, value) for key, value in replies]
        try:
            positions = {(self.config.requests, p): offset for p, offset in offsets.items()}
            if not self._replies.write(written, positions, assignment):
                return False
        except Fenced as e:
            self._start_over(e)
            return False
        self._index.add(waiting.request.key for waiting in ready)
        return True

    def _start_over(self, e: Fenced) -> None:
        """Creates a new producer, and repeats the protocol from step 1, because it is not known whether the transaction
        was committed. The usual cause is a broker that was unavailable for longer than a transaction may take. A second
        time within `FENCED_AGAIN_S` is an error: two workers with the same id would fence each other forever."""
        now = time.monotonic()
        if now - self._fenced_at < FENCED_AGAIN_S:
            raise BrokerError(
                f"{self.config.results}: expected to write replies, but {e} for the second time.",
                "make sure that no other worker has this --worker-id, and start again: nothing is lost.",
            )
        self._fenced_at = now
        log.warning("producer fenced", reason=str(e))
        self._replies = self._producer()
        self._requests.rejoin()

    def _done(self, ready: list[Waiting], offsets: dict[int, int]) -> None:
        del self.answered[: len(ready)]
        for waiting in ready:
            assert waiting.answer is not None
            self.metrics.replied(waiting.answer.outcome)
            del self.waiting[waiting.request.key]
            for partition, offset in waiting.places:
                del self.partitions[partition].unanswered[offset]
        for partition, offset in offsets.items():
            self.partitions[partition].committed = offset

    def _breaker_changed(self, state: State) -> None:
        self.metrics.set_breaker(state)
        log.warning("breaker", state=str(state))
