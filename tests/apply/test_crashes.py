"""Nothing is lost and nothing happens twice, whatever dies between which steps.

The process is real: a kill leaves open transactions on two servers, which no unit has.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from confluent_kafka import Consumer

from moneystate.apply.transactions import FAILPOINTS
from moneystate.devpostgres import DevPostgres
from tests.apply.harness import ROOT, Site
from tests.apply.model import DEAD_LETTERS, LARGE, MOVEMENTS, ORDERS, ORDERS_TABLE, Balances, Orders, movements, orders
from tests.apply.proxy import Proxy

BALANCES = ROOT / "examples" / "balances"
PIPELINE = """
[handler.movements]
topic = "movements"
handler = "balances:move"
notifications = "large-changes"
"""
RELAY_FAILPOINTS = ("fenced", "cursors read", "read", "produced", "published", "deleted")
PARTITIONS = 3
CRASH_S = 120.0


@pytest.fixture
def pipeline(site: Site) -> Site:
    site.sql((BALANCES / "tables.sql").read_text())
    shutil.copy(BALANCES / "balances.py", site.folder)
    site.topic(MOVEMENTS, PARTITIONS)
    site.topic(LARGE, 2)
    site.config(PIPELINE)
    return site


def start(site: Site, **environ: str) -> subprocess.Popen[bytes]:
    return site.start(site.folder / "apply.toml", "--create-tables", environ=environ)


@contextmanager
def witness(site: Site) -> Iterator[list[str]]:
    """Reads each notification when it comes, and then its row: the row must be there already."""
    early: list[str] = []
    stopped = threading.Event()

    def watch() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": site.bootstrap_servers, "group.id": f"{site.name}-witness",
                "isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20,
            }
        )  # fmt: skip
        consumer.subscribe([site.prefix + LARGE])
        try:
            while not stopped.is_set():
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                value = message.value()
                assert value is not None
                seen = _seen(site, value)
                if seen:
                    early.append(seen)
        finally:
            consumer.close()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield early
    finally:
        stopped.set()
        thread.join()


def _seen(site: Site, value: bytes) -> str:
    notice = json.loads(value)
    while True:
        try:
            rows = site.sql("SELECT movements FROM balances WHERE account = %s", notice["account"])
            return "" if rows and rows[0][0] >= notice["movements"] else f"{notice} before its row {rows}"
        except psycopg.OperationalError:
            continue  # the server restarts


def check(site: Site, sent: list[tuple[str, object]], others: Counter[bytes] | None = None) -> None:
    """Everything that was sent has had its effects, each once. `others`: dead letters of another target."""
    model = Balances(sent)
    site.until(lambda: model.rows == Balances.stored(site), "the rows of the model", CRASH_S)
    site.until(lambda: not site.sql("SELECT 1 FROM moneystate_outbox"), "an empty outbox", CRASH_S)
    assert Counter((n.value["account"], n.value["movements"]) for n in site.published(LARGE)) == Counter(
        model.notifications
    )
    letters = site.published(f"{site.name}-{DEAD_LETTERS}")
    reasons = model.reasons + (others or Counter())
    assert Counter(letter.headers["moneystate.reason"] for letter in letters) == reasons


def crash_at(site: Site, step: str, sent: list[tuple[str, object]], more: list[tuple[str, object]]) -> None:
    """Kills the process when it reaches the step, and sends more before the next one starts."""
    reached = site.folder / f"reached {step}"
    process = start(site, MONEYSTATE_PAUSE_AT=step, MONEYSTATE_PAUSE_FILE=str(reached))
    site.send(MOVEMENTS, sent)
    site.until(lambda: reached.exists() or process.poll() is not None, f"the step {step}", CRASH_S)
    assert process.poll() is None, site.log()
    process.kill()
    process.wait()
    site.send(MOVEMENTS, more)


@pytest.mark.long  # in make test, kills are random
def test_a_kill_after_a_telling_step_leaves_nothing_out_and_nothing_twice(pipeline: Site) -> None:
    _crash_at_each(pipeline, ("committed", "published"))


@pytest.mark.long
def test_a_kill_after_each_step_leaves_nothing_out_and_nothing_twice(pipeline: Site) -> None:
    _crash_at_each(pipeline, (*FAILPOINTS, *RELAY_FAILPOINTS))


def _crash_at_each(site: Site, steps: tuple[str, ...]) -> None:
    sent: list[tuple[str, object]] = []
    for n, step in enumerate(steps):
        some, more = movements(seed=2 * n, count=150), movements(seed=2 * n + 1, count=50)
        crash_at(site, step, some, more)
        sent += [*some, *more]
    with witness(site) as early:
        start(site)
        check(site, sent)
    assert early == []


ROWS = """
[rows.orders]
topic = "orders"
key = "id"
table = ["public", "orders"]
"""


def test_random_kills_lose_nothing_and_repeat_nothing(pipeline: Site) -> None:
    _kill_at_random(pipeline, kills=3, seed=1)


@pytest.mark.long
def test_two_hundred_random_kills_lose_nothing_and_repeat_nothing(pipeline: Site) -> None:
    _kill_at_random(pipeline, kills=200, seed=2)


def _kill_at_random(site: Site, kills: int, seed: int) -> None:
    """Two processes share the partitions of both targets, and one after the other is killed while records come."""
    chance = random.Random(seed)
    sent: list[tuple[str, object]] = []
    ordered: list[tuple[str, object]] = [Orders.FIRST]
    site.sql(ORDERS_TABLE)
    site.topic(ORDERS, PARTITIONS)
    site.config(PIPELINE + ROWS)
    site.sql("INSERT INTO orders VALUES ('first', 1, '{}', 'taken')")
    site.send(ORDERS, ordered)
    processes = [start(site), start(site)]
    with witness(site) as early:
        for n in range(kills):
            some = movements(seed=1_000 * seed + n, count=60)
            site.send(MOVEMENTS, some)
            sent += some
            some = orders(seed=1_000 * seed + n, count=60)
            site.send(ORDERS, some)
            ordered += some
            threading.Event().wait(chance.uniform(0.0, 3.0))  # when the kill comes is the test's input
            victim = chance.randrange(2)
            processes[victim].kill()
            processes[victim].wait()
            processes[victim] = start(site)
        model = Orders(ordered)
        site.until(lambda: model.rows == Orders.stored(site), "the rows of the other target", CRASH_S)
        check(site, sent, model.reasons)
    assert early == []


def test_a_stopped_instance_does_not_hold_up_its_successor(pipeline: Site) -> None:
    """It stands still inside a transaction with locked positions, and wakes up when another has gone on."""
    site = pipeline
    reached = site.folder / "reached"
    stopped = start(site, MONEYSTATE_PAUSE_AT="applied", MONEYSTATE_PAUSE_FILE=str(reached))
    some, more = movements(seed=1, count=150), movements(seed=2, count=150)
    site.send(MOVEMENTS, some)
    site.until(reached.exists, "a transaction", CRASH_S)
    os.kill(stopped.pid, signal.SIGSTOP)
    reached.write_text("go")
    start(site)
    site.send(MOVEMENTS, more)
    site.until(lambda: Balances(some + more).rows == Balances.stored(site), "the successor's rows", CRASH_S)
    os.kill(stopped.pid, signal.SIGCONT)
    last = movements(seed=3, count=150)
    site.send(MOVEMENTS, last)
    check(site, [*some, *more, *last])


@pytest.mark.long  # in make test, the random kills move partitions
def test_partitions_that_are_taken_away_go_on_elsewhere(pipeline: Site) -> None:
    """Instances come and go cleanly, so partitions move inside chunks that are being applied."""
    site = pipeline
    sent: list[tuple[str, object]] = []
    lasting = start(site)
    for n in range(3):
        other = start(site)
        site.until(lambda n=n: site.log().count("started") == n + 2, "the start")
        some = movements(seed=50 + n, count=300)
        site.send(MOVEMENTS, some)
        sent += some
        model = Balances(sent)
        site.until(lambda model=model: model.rows == Balances.stored(site), "the rows", CRASH_S)
        other.terminate()
        assert other.wait(60) == 0, site.log()
    assert lasting.poll() is None
    check(site, sent)


@pytest.fixture
def own_site(broker: object, tmp_path_factory: pytest.TempPathFactory, topic_prefix: str) -> Iterator[Site]:
    """One with a server of its own, which is restarted."""
    with (
        DevPostgres() as server,
        Site(broker.bootstrap_servers, server, topic_prefix.strip("-"), tmp_path_factory.mktemp("own")) as site,  # type: ignore[attr-defined]
    ):
        site.sql((BALANCES / "tables.sql").read_text())
        shutil.copy(BALANCES / "balances.py", site.folder)
        site.topic(MOVEMENTS, PARTITIONS)
        site.topic(LARGE, 2)
        site.config(PIPELINE)
        yield site


def _read_only(site: Site) -> None:
    site.sql(f'ALTER DATABASE "{site.name}" SET default_transaction_read_only = on')
    site.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'moneystate%'")
    site.send(MOVEMENTS, [("account-x", {"account": "account-x", "cents": -1, "n": 0})])  # one that is rejected
    site.until(lambda: "ReadOnlySqlTransaction" in site.log(), "an attempt that is refused")
    with psycopg.connect(site.postgres.dsn(), autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{site.name}" RESET default_transaction_read_only')


def _restarted(site: Site) -> None:
    site.postgres.crash()
    site.postgres.start()


def _cut(site: Site) -> None:
    with psycopg.connect(site.postgres.dsn(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'moneystate%'"
        )


def test_the_database_may_restart_cut_connections_and_refuse_writes(own_site: Site) -> None:
    site = own_site
    sent: list[tuple[str, object]] = []
    troubles: list[Callable[[Site], None]] = [_restarted, _cut, _read_only, _restarted]
    with witness(site) as early:
        process = start(site)
        for n, trouble in enumerate(troubles):
            some = movements(seed=70 + n, count=200)
            site.send(MOVEMENTS, some)
            sent += some
            trouble(site)
        sent += [("account-x", {"account": "account-x", "cents": -1})]
        check(site, sent)
    assert process.poll() is None, site.log()
    assert early == []


def test_a_commit_whose_answer_is_lost_has_its_effects_once(pipeline: Site) -> None:
    site = pipeline
    with Proxy(site.postgres.port) as proxy:
        dsn = site.dsn.replace(f"port={site.postgres.port}", f"port={proxy.port}")
        (site.folder / "dsn").write_text(dsn)
        sent: list[tuple[str, object]] = []
        start(site)
        for n in range(5):
            proxy.lose_commits.release()
            some = movements(seed=90 + n, count=40)
            site.send(MOVEMENTS, some)
            sent += some
            model = Balances(sent)
            site.until(lambda model=model: model.rows == Balances.stored(site), "the rows", CRASH_S)
            proxy.cut()
        check(site, sent)
        assert proxy.lost >= 3
