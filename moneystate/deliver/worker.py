"""A worker: reads its partitions of `deliveries`, sends, and writes what became of it.

Kafka's clients block, so their calls run one after the other in a thread. Meanwhile the requests run in the event loop.
A turn reads, sends what is due, and at most every 200 ms commits: the log, what is pending, what is undelivered, and
the positions, in one transaction. A request starts only while the group counts the worker as a member. Commands are
read in a thread of their own.
"""

from __future__ import annotations

import asyncio
import random
import secrets as random_ids
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

from moneystate.deliver import history, pending, statuses
from moneystate.deliver.attempts import Answer
from moneystate.deliver.book import ENDPOINTS, SUBSCRIPTIONS, Book
from moneystate.deliver.breaker import Breaker
from moneystate.deliver.command_reader import CommandReader
from moneystate.deliver.dispatcher import Bounds, Changes, Dispatcher
from moneystate.deliver.history import COMMANDS, RECORD_BYTES, Command, Ended, NotARecord, Resume
from moneystate.deliver.metrics import Metrics, Standing
from moneystate.deliver.obeying import Obeyer
from moneystate.deliver.partition import LEAST_ROOM, Partition
from moneystate.deliver.pending import Queued
from moneystate.deliver.pending_store import PendingStore
from moneystate.deliver.records import DeliveryReader, NotADelivery
from moneystate.deliver.requests import Message, NoSecret, named_secrets, request_of
from moneystate.deliver.rows import Endpoint, UrlRules
from moneystate.deliver.secrets import Store, UnknownSecret
from moneystate.deliver.sending import Sender
from moneystate.deliver.standing import standing_of
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
    folder: Path | None = None  # of the index; None: a temporary one
    extra: dict[str, str] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True)
class Left:
    """What an earlier worker has left of a partition, beside what is pending."""

    breakers: list[tuple[str, Breaker]]
    commands: int  # the next one to read


class Worker:
    """Call `run` only once. `stop` may be called in the event loop."""

    def __init__(self, config: WorkerConfig, sender: Sender) -> None:
        self.config = config
        self.sender = sender
        self.book = Book(config.prefix, config.rules)
        self.partitions: dict[int, Partition] = {}
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
        self._folder = ExitStack()
        self._store: PendingStore
        self._sends = 0
        self._waiting: list[asyncio.Future[None]] = []  # for a transaction
        self._obeying: asyncio.Task[None] | None = None
        self._commands_s = 0.0
        self._deliveries: GroupReader
        self._writer: GroupWriter
        self._tables: Tables
        self._leftovers: Leftovers
        self._obeyer: Obeyer

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
        return standing_of(self.partitions.values(), len(self.requests), self.sender.connections, _now_ms())

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
                self._obeyer.close()
                await self._kafka(self._close)
        finally:
            await self.sender.close()
            self._thread.shutdown()
            self._folder.close()

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
        folder = c.folder or Path(self._folder.enter_context(TemporaryDirectory(prefix="moneystate-deliver-")))
        self._store = PendingStore(folder, c.reader)
        self._folder.callback(self._store.close)
        self._leftovers = Leftovers(c.bootstrap_servers, c.extra)
        topics = Leftovers(c.bootstrap_servers, c.extra)
        self._obeyer = Obeyer(CommandReader(topics, c.prefix, c.prefix + DELIVERIES, c.reader))
        self._writer = self._new_writer()
        self._deliveries = GroupReader(
            c.bootstrap_servers, c.extra, c.group, c.prefix + DELIVERIES, "deliveries",
            "deliveries were deleted before they were sent",
        )  # fmt: skip
        self._deliveries.subscribe()

    def _new_writer(self) -> GroupWriter:
        c = self.config
        transactional_id, topic = f"{c.group}-{c.worker_id}", c.prefix + history.LOG
        return GroupWriter(c.bootstrap_servers, c.extra, transactional_id, topic, "deliver", RECORD_BYTES)

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
        now_ms = _now_ms()
        for row in rows:
            names = self.book.take(row)
            for own in self.partitions.values():
                own.row(*names, now_ms)
        self.book.reached(self._tables.positions)
        for message in messages:
            self._hold(message)
        for own in self.partitions.values():
            own.take(now_ms)
        await self._renew()
        self._send()
        if time.monotonic() - self._committed_s >= COMMIT_S:
            await self._commit()
        self._look_for_commands()

    def _read(self) -> tuple[list[Any], list[Row], Assignment | None, dict[int, Left]]:
        """In the thread: records, rows, and what is left of newly assigned partitions."""
        before = self._deliveries.assignment
        self._deliveries.pause(sum(len(own.held) for own in self.partitions.values()) >= MOST_HELD)
        polled = self._deliveries.poll(POLL_S, MOST_POLLED)
        assignment = self._deliveries.assignment
        left = {}
        if assignment is not before and assignment is not None:
            self._store.keep_only(assignment.starts)
            left = {partition: self._left_of(partition) for partition in assignment.starts}
        return polled.messages, list(self._tables.read(0.0)), assignment, left

    def _left_of(self, partition: int) -> Left:
        prefix = self.config.prefix
        self._store.rebuild(partition, self._leftovers.records(prefix + pending.PENDING, partition))
        breakers = [_read_or_none(statuses.from_json, value)
                    for value in self._leftovers.latest(prefix + statuses.STATUSES, partition).values()]  # fmt: skip
        commands = self._deliveries.committed(prefix + COMMANDS, partition)
        return Left([one for one in breakers if one is not None], commands or 0)

    def _begin(self, assignment: Assignment | None, left: dict[int, Left]) -> None:
        """What was under way belongs to whoever has the partitions now."""
        self._drop()
        self.assignment = assignment
        self.lease_until_s, self._renewed_s = 0.0, float("-inf")
        now_ms = _now_ms()
        for partition, start in ({} if assignment is None else assignment.starts).items():
            dispatcher = Dispatcher(_spread, _new_id, partial(self._store.load, partition), self.config.bounds)
            its = left[partition]
            for endpoint_id, breaker in its.breakers:
                dispatcher.status(endpoint_id, breaker)
            self.partitions[partition] = own = Partition(dispatcher, self.book, start, its.commands)
            own.restore(self._store.left(partition, _damaged), now_ms)
        _log.info("partitions", own=sorted(self.partitions), pending=self.standing().pending)

    def _drop(self) -> None:
        if self._obeying is not None:
            self._obeying.cancel()
        for task in self.requests:
            task.cancel()
        self.requests.clear()
        self.partitions.clear()

    def _hold(self, message: Any) -> None:
        own = self.partitions[message.partition()]
        try:
            delivery = self.config.reader.read(message.value())
        except NotADelivery as e:
            place = f"{message.topic()}/{message.partition()}/{message.offset()}"
            _log.error(f"{place}: expected a delivery, but {e}. It is left out.")
            delivery = None
        own.held.append((message.offset(), message.timestamp()[1], delivery))

    # Commands

    def _look_for_commands(self) -> None:
        """Beside the turns, as it may take long."""
        if self._obeying is None and time.monotonic() - self._commands_s >= COMMANDS_S:
            self._obeying = asyncio.create_task(self._obey())
            self._obeying.add_done_callback(self._obeyed)

    def _obeyed(self, task: asyncio.Task[None]) -> None:
        self._obeying, self._commands_s = None, time.monotonic()
        self._keep_failure(task)

    async def _obey(self) -> None:
        for partition, own in list(self.partitions.items()):
            commands, after = await self._obeyer.after(partition, own.commands)
            if commands:
                await self._follow(partition, own, commands)
            own.commands = after

    async def _follow(self, partition: int, own: Partition, commands: list[Command]) -> None:
        """What is sent again waits until all that was sent before is in the log."""
        now_ms = _now_ms()
        for command in commands:
            if isinstance(command, Resume):
                own.resume(command, now_ms)
        if all(isinstance(command, Resume) for command in commands):
            return
        await self._next_commit()
        again = await self._obeyer.meant(partition, commands)
        now_ms = _now_ms()
        for one in again:
            if one.run:
                own.redeliver(one, now_ms)
            else:
                self.sender.connections.used += 1
                self._start(self._test(own.dispatcher, one.message))

    async def _next_commit(self) -> None:
        """Until a transaction that begins from now on has been committed."""
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(committed)
        await committed

    async def _test(self, dispatcher: Dispatcher, message: Message) -> None:
        """A message that has one attempt and no outcome."""
        endpoint = self.book.endpoint(message.members[0].endpoint_id).row
        if endpoint is None or not self._has_lease():
            return
        answer = await self._answer(message, endpoint)
        dispatcher.tested(message, answer, _now_ms())

    # Requests

    def _send(self) -> None:
        """What is due, as long as the group counts this worker in. Partitions take turns to be the first."""
        if self.is_stopping:
            return
        now_ms = _now_ms()
        self._sends += 1
        dispatchers = [own.dispatcher for own in self.partitions.values()]
        first = self._sends % max(1, len(dispatchers))
        for dispatcher in dispatchers[first:] + dispatchers[:first]:
            if not self._has_lease():
                return
            for endpoint, one in dispatcher.ready(now_ms, self.sender.connections):
                self._start(self._attempt(dispatcher, endpoint, one))

    def _start(self, attempt: Coroutine[Any, Any, None]) -> None:
        """It has a connection until it ends."""
        task = asyncio.create_task(attempt)
        self.requests.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.sender.connections.used -= 1
        self.requests.discard(task)
        self._keep_failure(task)
        self._send()

    def _keep_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()

    async def _attempt(self, dispatcher: Dispatcher, endpoint: Endpoint, one: Queued) -> None:
        if self._has_lease():
            dispatcher.answered(one, await self._answer(one.loaded, endpoint), _now_ms())
        else:
            dispatcher.put_back(one, _now_ms())

    async def _answer(self, message: Message, endpoint: Endpoint) -> Answer:
        try:
            request = request_of(message, endpoint, self._values(endpoint), _now_ms())
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
        waiting, self._waiting = self._waiting, []
        now_ms = _now_ms()
        changes = {partition: own.dispatcher.collect(now_ms) for partition, own in self.partitions.items()}
        prefix = self.config.prefix
        records = [one for p, its in changes.items() for one in records_of(its, prefix, p, now_ms)]
        positions = self._positions({one.partition for one in records})
        is_written = not positions or await self._kafka(lambda: self._written(records, changes, positions, assignment))
        if positions:
            self.metrics.transactions.labels("committed" if is_written else "aborted").inc()
        if is_written:
            self._after_commit(changes, positions, assignment)
            for one in waiting:
                if not one.cancelled():
                    one.set_result(None)
        else:
            self._drop()
            self.assignment = None
            await self._kafka(self._lose)

    def _positions(self, wrote: set[int | None]) -> dict[tuple[str, int], int]:
        """Those of the partitions that are written for or have moved. A transaction that writes for a partition holds
        its position, so that it is refused once others have the partition."""
        prefix = self.config.prefix
        positions = {}
        for partition, own in self.partitions.items():
            if partition in wrote or own.position != own.committed or own.commands != own.commands_committed:
                positions[prefix + DELIVERIES, partition] = own.position
            if own.commands != own.commands_committed:
                positions[prefix + COMMANDS, partition] = own.commands
        return positions

    def _after_commit(
        self, changes: dict[int, Changes], positions: dict[tuple[str, int], int], assignment: Assignment
    ) -> None:
        now_ms, prefix = _now_ms(), self.config.prefix
        for partition, its in changes.items():
            ended = [one for one in its.log if isinstance(one, Ended)]
            for one in ended:
                self.metrics.outcomes.labels(one.outcome.value).inc()
            own = self.partitions.get(partition)
            if own is not None and self.assignment is assignment:
                own.room = max(LEAST_ROOM, 2 * len(ended))
                own.committed = positions.get((prefix + DELIVERIES, partition), own.committed)
                own.commands_committed = positions.get((prefix + COMMANDS, partition), own.commands_committed)
                own.dispatcher.committed(its, now_ms)

    def _written(
        self, records: list[Written], changes: dict[int, Changes], positions: dict[tuple[str, int], int],
        assignment: Assignment,
    ) -> bool:  # fmt: skip
        try:
            if not self._writer.write(records, positions, assignment):
                return False
        except Fenced as e:
            _log.warning("producer fenced", reason=str(e))
            self._writer = self._new_writer()
            return False
        for partition, its in changes.items():
            self._store.apply(partition, its.pending)
        return True

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


def _damaged(problem: str) -> None:
    _log.error(f"a record of the workers: {problem}. It is left out.")


def _spread() -> float:
    return random.uniform(-1, 1)


def _new_id() -> str:
    return f"msg_{random_ids.token_hex(32)}"


def _read_or_none(read: Callable[[bytes], T], value: bytes) -> T | None:
    try:
        return read(value)
    except NotARecord as e:
        _damaged(str(e))
        return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
