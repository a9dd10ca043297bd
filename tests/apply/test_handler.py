"""A handler reads, computes and updates in the transaction; its notifications follow the rows."""

from __future__ import annotations

import re
import shutil
from collections import Counter

import pytest

from moneystate.apply.config import OnError
from moneystate.apply.process import Process
from moneystate.apply.worker import Choices
from moneystate.errors import JobError
from tests.apply.harness import ROOT, Site
from tests.apply.model import DEAD_LETTERS, LARGE, MOVEMENTS, Balances, movements

BALANCES = ROOT / "examples" / "balances"
PIPELINE = """
[handler.movements]
topic = "movements"
handler = "balances:move"
notifications = "large-changes"
"""
ODD = """
[handler.odd]
topic = "movements"
handler = "odd_handlers:{}"
"""
HANDLERS = """
def fail(tx, event):
    if event.value["cents"] == 13:
        raise KeyError(event.value["account"])
    tx.execute("INSERT INTO balances VALUES (%s, %s, 1)", (event.value["account"], event.value["cents"]))


def commit(tx, event):
    tx.execute("INSERT INTO balances VALUES (%s, 1, 1)", (event.value["account"],))
    tx.connection.execute("COMMIT")


def commit_and_begin(tx, event):
    tx.connection.execute("COMMIT; BEGIN")
    tx.execute("INSERT INTO balances VALUES (%s, 1, 1)", (event.value["account"],))


def batch(tx, events):
    tx.executemany(
        "INSERT INTO balances VALUES (%s, %s, 1) "
        "ON CONFLICT (account) DO UPDATE SET movements = balances.movements + 1",
        [(event.value["account"], 0) for event in events],
    )
    return [({"size": len(events)}, events[-1].key)]
"""


@pytest.fixture(autouse=True)
def tables(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.sql((BALANCES / "tables.sql").read_text())
    shutil.copy(BALANCES / "balances.py", site.folder)
    (site.folder / "odd_handlers.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(str(site.folder))


def test_rows_notifications_and_dead_letters_equal_the_model(site: Site) -> None:
    site.topic(MOVEMENTS, 3)
    site.topic(LARGE, 2)
    sent = movements(seed=1, count=600)
    site.send(MOVEMENTS, sent)
    model = Balances(sent)
    with site.running(site.config(PIPELINE)):
        site.until(lambda: model.rows == Balances.stored(site), "the rows of the model")
        site.until(lambda: len(site.published(LARGE)) == len(model.notifications), "all notifications")
        site.until(lambda: not site.sql("SELECT 1 FROM moneystate_outbox"), "an empty outbox")
    assert Counter(n.value["account"] for n in site.published(LARGE)) == Counter(a for a, _ in model.notifications)
    letters = site.published(f"{site.name}-{DEAD_LETTERS}")
    assert Counter(letter.headers["moneystate.reason"] for letter in letters) == model.reasons
    assert all(n.headers["lineage"] for n in site.published(LARGE))


def test_an_exception_stops_its_partition_and_the_others_go_on(site: Site) -> None:
    site.topic(MOVEMENTS, 2)
    site.send(MOVEMENTS, [("a", {"account": "a", "cents": 1}), ("b", {"account": "b", "cents": 13})], partition=0)
    config = site.config(ODD.format("fail"))

    def go_on(process: Process) -> None:
        site.until(lambda: process.workers[0].counts.stopped, "a stopped partition")
        site.send(MOVEMENTS, [("c", {"account": "c", "cents": 3})], partition=1)
        site.until(lambda: site.sql("SELECT 1 FROM balances WHERE account = 'c'"), "the row of the other partition")
        assert not process.ready().is_good

    error = site.error_of(config, go_on)
    assert isinstance(error, JobError)
    assert re.search("partition 0.*offset 1.*KeyError", str(error))
    assert site.sql("SELECT account FROM balances ORDER BY account") == [("a",), ("c",)]
    with site.running(config, Choices(on_error=OnError.dead_letter)):
        site.until(lambda: site.published(f"{site.name}-{DEAD_LETTERS}"), "the dead letter")


@pytest.mark.parametrize("function", ["commit", "commit_and_begin"])
def test_a_handler_that_commits_is_noticed(site: Site, function: str) -> None:
    site.topic(MOVEMENTS)
    site.send(MOVEMENTS, [("a", {"account": "a", "cents": 1})])
    config = site.config(ODD.format(function))
    error = site.error_of(config, lambda process: site.until(lambda: process.workers[0].error, "an error"))
    assert isinstance(error, JobError)
    assert "was ended" in str(error)


def test_a_batch_handler_gets_all_events_of_a_transaction(site: Site) -> None:
    site.topic(MOVEMENTS)
    site.topic(LARGE)
    site.send(MOVEMENTS, [("a", {"account": "a", "cents": 1})] * 40)
    with site.running(site.config(ODD.format("batch") + f'batch = true\nnotifications = "{LARGE}"')):
        site.until(lambda: site.sql("SELECT movements FROM balances") == [(40,)], "all movements")
        site.until(lambda: sum(n.value["size"] for n in site.published(LARGE)) == 40, "all notifications")
