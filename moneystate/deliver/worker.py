"""A worker: reads its partitions of `deliveries`, sends, and writes what became of it.

Kafka's clients block, so their calls run one after the other in a thread. Meanwhile the requests run in the event loop.
A turn reads, sends what is due, and at most every 200 ms commits: the log, what is pending, what is undelivered, and
the positions, in one transaction. A request starts only while the group counts the worker as a member.
"""

from __future__ import annotations

import asyncio
import random
import secrets as random_ids
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from moneystate.deliver import history, pending, statuses
from moneystate.deliver.attempts import Answer
from moneystate.deliver.book import ENDPOINTS, SUBSCRIPTIONS, Book
from moneystate.deliver.breaker import Status
from moneystate.deliver.command_reader import CommandReader
from moneystate.deliver.dispatcher import Dispatcher
from moneystate.deliver.history import Ended, NotARecord
from moneystate.deliver.metrics import Metrics, Standing
from moneystate.deliver.pending import Queued
from moneystate.deliver.records import Delivery, DeliveryReader, NotADelivery
from moneystate.deliver.requests import Message, NoSecret, named_secrets, request_of
from moneystate.deliver.rows import Endpoint, UrlRules
from moneystate.deliver.secrets import Store, UnknownSecret
from moneystate.deliver.sending import Sender
from moneystate.deliver.topics import Leftovers, Row, Tables
from moneystate.deliver.writing import records_of
from moneystate.errors import BrokerError
from moneystate.kafka.group_transactions import SESSION_MS, Assignment, Fenced, GroupReader, GroupWriter, Written
from moneystate.log import get_log
from moneystate.monitoring import Health

DELIVERIES: Final = "deliveries"
COMMIT_S: Final = 0.2  # between transactions
COMMANDS_S: Final = 1.0  # between two looks for commands
POLL_S: Final = 0.02
MOST_POLLED: Final = 1_000
RENEWALS: Final = 4  # in a session
LEAST_ROOM: Final = 500
MOST_HELD: Final = 10_000  # deliveries whose rows have not been read yet, before reading pauses
_log = get_log(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class WorkerConfig:
    """`prefix`: of all topics; `worker_id`: of this worker alone."""

    bootstrap_servers: str
    group: str
    worker_id: str
    reader: DeliveryReader
    rules: UrlRules
    secrets: Store | None = None
    prefix: str = ""
    extra: dict[str, str] = field(default_factory=dict)


@dataclass
class Own:
    """A partition of this worker. `held`: deliveries that wait for their rows; `position`: the next one to take."""

    dispatcher: Dispatcher
    position: int
    committed: int
    commands: int = 0  # the next one to read
    room: int = LEAST_ROOM  # to take before the next transaction, which stores what has not ended
    held: deque[tuple[int, Delivery | None]] = field(default_factory=deque)


class Worker:
    """Call `run` only once. `stop` may be called in the event loop."""

    def __init__(self, config: WorkerConfig, sender: Sender) -> None:
        self.config = config
        self.sender = sender
        self.book = Book(config.prefix, config.rules)
        self.partitions: dict[int, Own] = {}
        self.assignment: Assignment | None = None
        self.metrics = Metrics(self.standing)
        self.requests: set[asyncio.Task[None]] = set()
        self.is_stopping = False
        self.session_s = int(config.extra.get("session.timeout.ms", SESSION_MS)) / 1_000
        self.lease_until_s = 0.0
        self._committed_s = 0.0
        self._renewed_s = float("-inf")
        self._failure: BaseException | None = None
        self._thread = ThreadPoolExecutor(1, "kafka")
        self._deliveries: GroupReader
        self._writer: GroupWriter
        self._tables: Tables
        self._leftovers: Leftovers
        self._commands: CommandReader
        self._commands_s = 0.0

    def stop(self) -> None:
        self.is_stopping = True

    def ready(self) -> Health:
        """Whether it sends."""
        if self.is_stopping:
            return Health(False, "stopping")
        if self.assignment is None:
            return Health(False, "starting: it has no place in the consumer group yet")
        return Health(True, "ready")

    def standing(self) -> Standing:
        queues = [queue for own in list(self.partitions.values()) for queue in list(own.dispatcher.endpoints.values())]
        stopped = sum(queue.breaker.status is not Status.CLOSED for queue in queues)
        return Standing(len(self.partitions), sum(queue.count for queue in queues), len(self.requests), stopped)

    async def run(self) -> None:
        """Runs until `stop`; requests that are under way then get a second to end. Raises MoneystateError."""
        try:
            await self._kafka(self._open)
            try:
                while not self.is_stopping:
                    await self._turn()
                await self._end()
            finally:
                self._drop()
                await self._kafka(self._close)
        finally:
            await self.sender.close()
            self._thread.shutdown()

    async def _end(self) -> None:
        if self.requests:
            await asyncio.wait(self.requests, timeout=1.0)
        await self._commit()

    async def _kafka(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _open(self) -> None:
        c = self.config
        self._tables = Tables(c.bootstrap_servers, c.extra, [c.prefix + name for name in (ENDPOINTS, SUBSCRIPTIONS)])
        for row in self._tables.read_all():
            self.book.take(row)
        self.book.reached(self._tables.positions)
        _log.info("rows read", endpoints=len(self.book.endpoints), subscriptions=len(self.book.subscriptions))
        self._leftovers = Leftovers(c.bootstrap_servers, c.extra)
        self._commands = CommandReader(self._leftovers, c.prefix, c.prefix + DELIVERIES, c.reader)
        self._writer = self._new_writer()
        self._deliveries = GroupReader(
            c.bootstrap_servers, c.extra, c.group, c.prefix + DELIVERIES, "deliveries",
            "deliveries were deleted before they were sent",
        )  # fmt: skip
        self._deliveries.subscribe()

    def _new_writer(self) -> GroupWriter:
        c = self.config
        return GroupWriter(c.bootstrap_servers, c.extra, f"{c.group}-{c.worker_id}", c.prefix + history.LOG, "deliver")

    def _close(self) -> None:
        self._deliveries.close()
        self._tables.close()

    # One turn

    async def _turn(self) -> None:
        messages, rows, assignment, left = await self._kafka(self._read)
        if self._failure is not None:
            raise self._failure
        if assignment is not self.assignment:
            self._begin(assignment, left)
        for row in rows:
            self._row(row)
        self.book.reached(self._tables.positions)
        for message in messages:
            self._hold(message)
        self._take()
        await self._renew()
        self._send()
        if time.monotonic() - self._committed_s >= COMMIT_S:
            await self._commit()
        if time.monotonic() - self._commands_s >= COMMANDS_S:
            await self._obey()

    def _read(self) -> tuple[list[Any], list[Row], Assignment | None, dict[int, tuple[list[Queued], list[Any]]]]:
        """In the thread: records, rows, and what is left of newly assigned partitions."""
        before = self._deliveries.assignment
        self._deliveries.pause(sum(len(own.held) for own in self.partitions.values()) >= MOST_HELD)
        polled = self._deliveries.poll(POLL_S, MOST_POLLED)
        assignment = self._deliveries.assignment
        left = {}
        if assignment is not before and assignment is not None:
            left = {partition: self._left_of(partition) for partition in assignment.starts}
        return polled.messages, list(self._tables.read(0.0)), assignment, left

    def _left_of(self, partition: int) -> tuple[list[Queued], list[Any]]:
        prefix = self.config.prefix
        waiting = [_read_or_none(pending.from_json, value)
                   for value in self._leftovers.latest(prefix + pending.PENDING, partition).values()]  # fmt: skip
        breakers = [_read_or_none(statuses.from_json, value)
                    for value in self._leftovers.latest(prefix + statuses.STATUSES, partition).values()]  # fmt: skip
        return [one for one in waiting if one is not None], [one for one in breakers if one is not None]

    def _begin(self, assignment: Assignment | None, left: dict[int, tuple[list[Queued], list[Any]]]) -> None:
        """What was under way belongs to whoever has the partitions now."""
        self._drop()
        self.assignment = assignment
        self.lease_until_s, self._renewed_s = 0.0, float("-inf")
        now_ms = _now_ms()
        for partition, start in ({} if assignment is None else assignment.starts).items():
            dispatcher = Dispatcher(lambda: random.uniform(-1, 1), lambda: f"msg_{random_ids.token_hex(32)}")
            waiting, breakers = left.get(partition, ([], []))
            for endpoint_id, breaker in breakers:
                dispatcher.status(endpoint_id, breaker)
            for one in waiting:
                self._introduce(dispatcher, one.first, now_ms)
            dispatcher.restore(waiting, now_ms)
            self.partitions[partition] = Own(dispatcher, start, start)
        _log.info("partitions", own=sorted(self.partitions), pending=sum(len(its[0]) for its in left.values()))

    def _drop(self) -> None:
        for task in self.requests:
            task.cancel()
        self.requests.clear()
        self.partitions.clear()

    def _row(self, row: Row) -> None:
        endpoint_id, subscription_id = self.book.take(row)
        now_ms = _now_ms()
        for own in self.partitions.values():
            if endpoint_id not in own.dispatcher.endpoints:
                continue
            if not subscription_id:
                known = self.book.endpoint(endpoint_id)
                own.dispatcher.endpoint_row(endpoint_id, known.row, known.offset, now_ms, known.since_ms)
            elif subscription_id in own.dispatcher.endpoints[endpoint_id].subscriptions:
                own.dispatcher.subscription_row(
                    endpoint_id, subscription_id, self.book.subscriptions.get(subscription_id), now_ms
                )

    def _introduce(self, dispatcher: Dispatcher, delivery: Delivery, now_ms: int) -> None:
        """Gives the rows of a delivery, if the dispatcher does not have them."""
        queue = dispatcher.endpoints.get(delivery.endpoint_id)
        if queue is None or queue.row is None:
            known = self.book.endpoint(delivery.endpoint_id)
            dispatcher.endpoint_row(delivery.endpoint_id, known.row, known.offset, now_ms, known.since_ms)
            queue = dispatcher.endpoints[delivery.endpoint_id]
        if delivery.subscription_id not in queue.subscriptions:
            its = self.book.subscriptions.get(delivery.subscription_id)
            dispatcher.subscription_row(delivery.endpoint_id, delivery.subscription_id, its, now_ms)

    def _hold(self, message: Any) -> None:
        own = self.partitions[message.partition()]
        try:
            delivery = self.config.reader.read(message.value())
        except NotADelivery as e:
            place = f"{message.topic()}/{message.partition()}/{message.offset()}"
            _log.error(f"{place}: expected a delivery, but {e}. It is left out.")
            delivery = None
        own.held.append((message.offset(), delivery))

    def _take(self) -> None:
        """Deliveries whose rows are known, those of a partition in order."""
        now_ms = _now_ms()
        for own in self.partitions.values():
            while own.held and len(own.dispatcher.fresh) < own.room and self._knows(own.held[0][1]):
                offset, delivery = own.held.popleft()
                own.position = offset + 1
                if delivery is not None:
                    self._introduce(own.dispatcher, delivery, now_ms)
                    own.dispatcher.take(delivery, now_ms)

    def _knows(self, delivery: Delivery | None) -> bool:
        """Whether the rows of a delivery have been read. None: it is no delivery."""
        return delivery is None or self.book.has(delivery)

    async def _obey(self) -> None:
        """Sends again what commands ask for, once all that was sent before is in the log."""
        self._commands_s, assignment = time.monotonic(), self.assignment
        for partition, own in list(self.partitions.items()):
            commands, after = await self._kafka(partial(self._commands.after, partition, own.commands))
            if commands:
                await self._commit()  # the log then has all that was sent again before
                again = await self._kafka(partial(self._commands.meant, partition, commands))
            else:
                again = []
            if self.assignment is not assignment:
                return
            own.commands = after
            now_ms = _now_ms()
            for one in again:
                if one.run:
                    self._introduce(own.dispatcher, one.message.members[0], now_ms)
                    own.dispatcher.redeliver(one.message, one.run, one.command_id, now_ms)
                else:
                    self._start(self._test(own.dispatcher, one.message))
        self._send()

    async def _test(self, dispatcher: Dispatcher, message: Message) -> None:
        """A message that has one attempt and no outcome."""
        endpoint = self.book.endpoint(message.members[0].endpoint_id).row
        if endpoint is None or not self._has_lease():
            return
        answer = await self._answer(Queued(message, 0), endpoint)
        dispatcher.tested(message, answer, _now_ms())

    # Requests

    def _send(self) -> None:
        """What is due, as long as the group counts this worker in."""
        now_ms = _now_ms()
        for own in self.partitions.values():
            if not self._has_lease():
                return
            for endpoint, one in own.dispatcher.ready(now_ms):
                self._start(self._attempt(own.dispatcher, endpoint, one))

    def _start(self, attempt: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(attempt)
        self.requests.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.requests.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()

    async def _attempt(self, dispatcher: Dispatcher, endpoint: Endpoint, one: Queued) -> None:
        if not self._has_lease():
            dispatcher.put_back(one, _now_ms())
            return
        dispatcher.answered(one, await self._answer(one, endpoint), _now_ms())
        self._send()

    async def _answer(self, one: Queued, endpoint: Endpoint) -> Answer:
        try:
            request = request_of(one.message, endpoint, self._values(endpoint), _now_ms())
        except NoSecret as e:
            return Answer(None, 0, problem=str(e))
        answer = await self.sender.send(request)
        self.metrics.attempted(answer)
        return answer

    def _has_lease(self) -> bool:
        return time.monotonic() < self.lease_until_s

    def _values(self, endpoint: Endpoint) -> dict[str, str]:
        values = {}
        for name in named_secrets(endpoint):
            try:
                if self.config.secrets is not None:
                    values[name] = self.config.secrets.value(endpoint.owner, name)
            except UnknownSecret:
                continue  # the request says so
        return values

    # Transactions

    async def _commit(self) -> None:
        """One transaction with what all partitions have to write, and their positions."""
        self._committed_s = time.monotonic()
        assignment = self.assignment
        if assignment is None:
            return
        now_ms = _now_ms()
        changes = {partition: own.dispatcher.collect(now_ms) for partition, own in self.partitions.items()}
        prefix = self.config.prefix
        records = [one for p, its in changes.items() for one in records_of(its, prefix, p, now_ms)]
        wrote = {one.partition for one in records}
        offsets = {
            partition: own.position for partition, own in self.partitions.items()
            if partition in wrote or own.position != own.committed
        }  # fmt: skip
        is_written = not offsets or await self._kafka(lambda: self._written(records, offsets, assignment))
        if offsets:
            self.metrics.transactions.labels("committed" if is_written else "aborted").inc()
        if not is_written:
            self._drop()
            self.assignment = None
            await self._kafka(self._lose)
            return
        now_ms = _now_ms()
        for partition, its in changes.items():
            ended = [one for one in its.log if isinstance(one, Ended)]
            for one in ended:
                self.metrics.outcomes.labels(one.outcome.value).inc()
            own = self.partitions.get(partition)
            if own is not None and self.assignment is assignment:
                own.room = max(LEAST_ROOM, 2 * len(ended))
                own.committed = offsets.get(partition, own.committed)
                own.dispatcher.committed(its, now_ms)

    def _written(self, records: list[Written], offsets: dict[int, int], assignment: Assignment) -> bool:
        try:
            return self._writer.write(self.config.prefix + DELIVERIES, records, offsets, assignment)
        except Fenced as e:
            _log.warning("producer fenced", reason=str(e))
            self._writer = self._new_writer()
            return False

    def _lose(self) -> None:
        """The group has given the partitions to others, or the broker refused the transaction."""
        _log.warning("a transaction was refused: the partitions are assigned again")
        self._deliveries.rejoin()

    async def _renew(self) -> None:
        """Asks the group whether this worker is still a member. The answer holds for a session from the question on."""
        begun = time.monotonic()
        if self.assignment is None or begun - self._renewed_s < self.session_s / RENEWALS:
            return
        positions = {partition: own.committed for partition, own in self.partitions.items()}
        self._renewed_s = begun
        if not positions:
            return
        try:
            await self._kafka(lambda: self._deliveries.renew(positions))
        except BrokerError as e:
            _log.warning(str(e))
            return
        self.lease_until_s = begun + self.session_s


def _read_or_none(read: Callable[[bytes], T], value: bytes) -> T | None:
    try:
        return read(value)
    except NotARecord as e:
        _log.error(f"a record of the workers: {e}. It is left out.")
        return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
