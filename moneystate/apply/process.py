"""The process: a worker for each target, the relay, and what they tell about themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import psycopg
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.catalogue import other_constraints
from moneystate.apply.config import HandlerTarget, RowsTarget, Settings, Target
from moneystate.apply.database import Connected, Database, Unavailable, judge, said
from moneystate.apply.handler_target import Handler
from moneystate.apply.relay import Relay
from moneystate.apply.rows_target import Rows
from moneystate.apply.sqlstates import Verdict
from moneystate.apply.state_target import State
from moneystate.apply.state_worker import StateWorker
from moneystate.apply.worker import Choices, Worker
from moneystate.errors import ConfigError, JobError, MoneystateError
from moneystate.kafka.client import admin_client
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.log import get_log
from moneystate.monitoring import Health

_log = get_log(__name__)

TURN_S: Final = 0.2
END_S: Final = 60.0
# How long a thread that reads records may hold the interpreter while the answer to a statement waits for it. With
# Python's 5 ms the statements of a transaction waited longer for the interpreter than for the database.
SWITCH_S: Final = 0.0005
PREFIX: Final = "moneystate_apply_"


AnyTarget = Rows | Handler | State


def applied(target: Target, settings: Settings) -> AnyTarget:
    """Raises ConfigError."""
    if isinstance(target, RowsTarget):
        return Rows(target, settings.topic_prefix, settings.schema_registry)
    if isinstance(target, HandlerTarget):
        return Handler(target, settings.application, settings.topic_prefix, settings.schema_registry)
    return State(target, settings.topic_prefix)


AnyWorker = Worker | StateWorker


class Stopped(Protocol):
    """Tells whether the process is to end, as `StopSignals` does."""

    def wait(self, timeout_s: float | None = None) -> bool: ...


class Process:
    """All targets of a configuration."""

    def __init__(self, settings: Settings, choices: Choices) -> None:
        self.settings = settings
        self.database = Database(settings)
        self.books = Bookkeeping(settings.schema, settings.application)
        self.relay = Relay(settings, self.database, self.books)
        self._choices = choices
        self.workers = [self._worker(target, is_first=n == 0) for n, target in enumerate(settings.targets)]

    def _worker(self, target: Target, is_first: bool) -> Worker | StateWorker:
        """Raises ConfigError."""
        s, lead = self.settings, self._lead if is_first else None
        made = applied(target, s)
        if isinstance(made, State):
            return StateWorker(made, s, self.database, self.books, lead)
        start = made.target.source.start
        return Worker(made, start, s, self.database, self.books, self._choices, self.relay.wake, lead)

    def ensure_topics(self) -> None:
        """Creates the topics of the outbox that are missing. Raises SetupError and BrokerError."""
        s = self.settings
        wanted = [
            TopicSpec(s.cursors_topic, 1, compacted=True, keep_for_good=True),
            TopicSpec(s.dead_letters_topic, 1, keep_for_good=True),
        ]
        ensure_topics(admin_client(s.bootstrap_servers, dict(s.kafka)), wanted, create=True)

    def check(self, create_tables: bool) -> bool:
        """Looks at the database. False: it does not answer at the moment. Raises ConfigError and SetupError for what is
        wrong with it."""
        try:
            with self.database.connect() as connection:
                if create_tables:
                    self._create(connection)
                else:
                    check_tables(connection, self.settings)
                for worker in self.workers:
                    worker.target.prepare(connection)
                    self._warn(connection, worker)
                return True
        except Unavailable as e:
            if e.refused:
                raise ConfigError(
                    f"the database: expected to be let in, but {e}.", "check the connection string and the roles."
                ) from None
            why = str(e)
        except psycopg.Error as e:
            if judge(e) is not Verdict.again:
                raise database_error(e) from None
            why = said(e)
        _log.warning("the database is waited for", why=why)
        return False

    def _warn(self, connection: Connected, worker: AnyWorker) -> None:
        """Tells which constraints only the database checks: with them, which records become dead letters may depend on
        how they are cut into transactions."""
        if isinstance(worker.target, Rows):
            names = other_constraints(connection, worker.target.target.table)
            if names:
                _log.warning("dead letters may depend on transactions", target=worker.target.name, constraints=names)

    def _create(self, connection: Connected) -> None:
        for statement in [*self.books.ddl(), *_missing(connection, self.settings)]:
            connection.execute(statement)

    def run(self, stopped: Stopped) -> None:
        """Works until a signal, or until no target can go on. Raises MoneystateError for a target that cannot go on."""
        sys.setswitchinterval(SWITCH_S)
        for worker in self.workers:
            worker.start()
        try:
            while not stopped.wait(TURN_S):
                if any(worker.error for worker in self.workers) or self.relay.error:
                    break
                if all(self._is_done(worker) for worker in self.workers):
                    break
        finally:
            for worker in self.workers:
                worker.stop()
            for worker in self.workers:
                worker.join(END_S)
            self.relay.stop()
        self._raise()

    def _is_done(self, worker: Worker | StateWorker) -> bool:
        """Whether all partitions of the worker have stopped."""
        begins = worker.begins
        return bool(begins) and begins.keys() <= worker.counts.stopped.keys()

    def _raise(self) -> None:
        for error in [*(worker.error for worker in self.workers), self.relay.error]:
            if error is not None:
                raise error
        for worker in self.workers:
            for partition, why in worker.counts.stopped.items():
                raise JobError(
                    f"target {worker.target.name}, {partition.topic} partition {partition.number}, {why}",
                    "correct the function or the table and start again; --on-error dead-letter goes on without the "
                    "record.",
                )

    def _lead(self, leads: bool) -> None:
        if leads:
            self.relay.start()
        else:
            self.relay.stop()

    # health and metrics

    def live(self) -> Health:
        answers = [worker.pulse.check() for worker in self.workers]
        return next((answer for answer in answers if not answer.is_good), Health(True, "alive"))

    def ready(self) -> Health:
        for worker in self.workers:
            name, counts = worker.target.name, worker.counts
            if counts.trouble:
                return Health(False, f"{name}: {counts.trouble}")
            if counts.stopped:
                return Health(False, f"{name}: {len(counts.stopped)} partitions have stopped")
        return Health(True, "ready")


def database_error(error: psycopg.Error) -> MoneystateError:
    return JobError(f"the database: expected to use its tables, but {said(error)}.", "check the tables and the grants.")


def check_tables(connection: Connected, settings: Settings) -> None:
    """Raises ConfigError if the application's own tables are missing."""
    if not Bookkeeping(settings.schema, settings.application).exist(connection):
        raise ConfigError(
            f"the database: expected the tables of positions, outbox and versions in the schema {settings.schema}, "
            "found not all of them.",
            "start with --create-tables, or run what moneystate apply ddl prints.",
        )


def ddl_of(settings: Settings) -> list[str]:
    """The statements that make all tables, apart from those of records without a schema."""
    statements = Bookkeeping(settings.schema, settings.application).ddl()
    for target in _with_tables(settings):
        if isinstance(target, State):
            statements += target.ddl()
        elif target.has_schema:
            statements.append(target.ddl())
        else:
            statements.append(f"-- {target.where}: its records have no schema; create the table yourself")
    return statements


def difference_of(settings: Settings) -> list[str]:
    """Returns what the tables in the database lack. Raises ConfigError."""
    books = Bookkeeping(settings.schema, settings.application)
    with connected(settings) as connection:
        missing = [] if books.exist(connection) else books.ddl()
        return [*missing, *_missing(connection, settings)]


@contextmanager
def connected(settings: Settings) -> Iterator[Connected]:
    """A connection for a command that does not wait for a server. Raises ConfigError, and JobError for errors of the
    database."""
    try:
        with Database(settings).connect() as connection:
            yield connection
    except Unavailable as e:
        raise ConfigError(f"the database: expected an answer, but {e}.", "check the connection string.") from None
    except psycopg.Error as e:
        raise database_error(e) from None


def _missing(connection: Connected, settings: Settings) -> list[str]:
    return [
        line
        for target in _with_tables(settings)
        if isinstance(target, State) or target.has_schema
        for line in target.diff(connection)
    ]


def _with_tables(settings: Settings) -> list[Rows | State]:
    made = [applied(target, settings) for target in settings.targets]
    return [target for target in made if not isinstance(target, Handler)]


class Metrics(Collector):
    """Collects what Prometheus reads."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def collect(self) -> Iterable[Metric]:
        counters: list[tuple[str, str, Callable[[AnyWorker], float]]] = [
            ("records", "Records whose effects are committed.", lambda w: w.counts.records),
            ("transactions", "Transactions that ended.", lambda w: w.counts.transactions),
            ("dead_letters", "Records that became dead letters.", lambda w: w.counts.letters),
            ("notifications", "Rows put into the outbox.", lambda w: w.counts.outgoing),
            ("retries", "Attempts that failed for a while.", lambda w: w.counts.retries),
            ("skipped_offsets", "Lost offsets that were skipped.", lambda w: w.counts.skipped),
        ]
        for name, help, value in counters:
            family = CounterMetricFamily(PREFIX + name, help, labels=["target"])
            for worker in self._process.workers:
                family.add_metric([worker.target.name], value(worker))
            yield family
        stopped = GaugeMetricFamily(PREFIX + "stopped_partitions", "Partitions that cannot go on.", labels=["target"])
        assigned = GaugeMetricFamily(PREFIX + "partitions", "Partitions of this process.", labels=["target"])
        for worker in self._process.workers:
            stopped.add_metric([worker.target.name], len(worker.counts.stopped))
            assigned.add_metric([worker.target.name], len(worker.begins))
        yield stopped
        yield assigned
        yield CounterMetricFamily(
            PREFIX + "published", "Records that the relay has published.", value=self._process.relay.published
        )
