"""A rebuild makes tables equal to their topics, whatever was in them, and what applies meanwhile goes on behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.config_file import read_settings
from moneystate.apply.process import applied, connected
from moneystate.apply.rebuilding import Rebuilding
from moneystate.apply.rows_target import Rows
from moneystate.apply.state_target import State
from tests.apply.changelog import SERVICE, Changes, Job
from tests.apply.harness import Site
from tests.apply.test_state import reaches, read, reading

ORDERS = """
[rows.orders]
topic = "orders"
key = "id"
table = ["public", "orders"]
[rows.orders.columns]
id = "id"
cents = "cents"
"""
STEPS = ("staged", "locked", "completed", "merged", "taken over", "committed")
CRASH_S = 60.0


def command(site: Site, config: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "moneystate.cli.main", "apply", words[0], "--config", str(config), *words[1:]],
        capture_output=True, text=True, cwd=site.folder, env=site.environ(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def rebuild(config: Path, target: str) -> None:
    """As the command does, in this process."""
    settings = read_settings(config)
    books = Bookkeeping(settings.schema, settings.application)
    with connected(settings) as connection:
        rebuilding = Rebuilding(settings, books, connection, lambda _: None)
        made = next(applied(one, settings) for one in settings.targets if one.name == target)
        if isinstance(made, State):
            rebuilding.state(made)
        elif isinstance(made, Rows):
            rebuilding.rows(made)


@pytest.fixture
def spoiled(site: Site) -> tuple[Site, Path]:
    """A table with wrong rows, one that should not be there, and a column of somebody else."""
    site.topic("orders", 2, compacted=True)
    site.sql("CREATE TABLE orders (id text PRIMARY KEY, cents bigint CHECK (cents < 1000), note text)")
    site.sql("CREATE VIEW dear AS SELECT id FROM orders WHERE cents > 50")
    config = site.config(ORDERS)
    site.send("orders", [(f"k{n}", {"id": f"k{n}", "cents": n}) for n in range(100)] + [("k7", None)])
    with site.running(config):
        site.until(lambda: site.sql("SELECT count(*) FROM orders") == [(99,)], "the rows")
    site.sql("UPDATE orders SET cents = 0, note = 'mine' WHERE id IN ('k1', 'k2')")
    site.sql("DELETE FROM orders WHERE id = 'k3'")
    site.sql("INSERT INTO orders VALUES ('extra', 1)")
    return site, config


def right(more: int = 0) -> list[tuple[Any, ...]]:
    notes = {"k1": "mine", "k2": "mine"}
    return sorted((f"k{n}", n, notes.get(f"k{n}")) for n in range(100 + more) if n != 7)


def test_a_rebuild_changes_what_differs_and_nothing_else(spoiled: tuple[Site, Path]) -> None:
    site, config = spoiled
    untouched = site.sql("SELECT xmin::text FROM orders WHERE id = 'k50'")
    site.send("orders", [("bad", {"id": "bad", "cents": 5_000})])
    rebuild(config, "orders")
    assert sorted(site.sql("SELECT id, cents, note FROM orders")) == right()
    assert site.sql("SELECT xmin::text FROM orders WHERE id = 'k50'") == untouched
    site.send("orders", [("k100", {"id": "k100", "cents": 100})])
    with site.running(config) as process:
        site.until(lambda: sorted(site.sql("SELECT id, cents, note FROM orders")) == right(1), "the row after it")
        site.until(lambda: process.workers[0].counts.records == 1, "one record: it goes on behind the rebuild")
        letters = f"{site.name}-apply-dead-letters"
        site.until(lambda: len(site.published(letters)) == 1, "the dead letter of the rebuild")


def test_a_rebuild_while_records_are_applied_loses_none(spoiled: tuple[Site, Path]) -> None:
    site, config = spoiled
    with site.running(config):
        for n in range(100, 105):
            site.send("orders", [(f"k{n}", {"id": f"k{n}", "cents": n})])
            rebuild(config, "orders")
        site.until(lambda: sorted(site.sql("SELECT id, cents, note FROM orders")) == right(5), "all rows")


@pytest.mark.parametrize("step", ["merged", *[pytest.param(s, marks=pytest.mark.long) for s in STEPS if s != "merged"]])
def test_a_rebuild_that_is_killed_leaves_the_old_rows_or_the_new_ones(spoiled: tuple[Site, Path], step: str) -> None:
    site, config = spoiled
    before = sorted(site.sql("SELECT id, cents, note FROM orders"))
    reached = site.folder / "reached"
    process = subprocess.Popen(
        [sys.executable, "-m", "moneystate.cli.main", "apply", "rebuild", "--config", str(config), "orders"],
        env=site.environ(MONEYSTATE_PAUSE_AT=step, MONEYSTATE_PAUSE_FILE=str(reached)), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    site.until(lambda: reached.exists() or process.poll() is not None, f"the step {step}", CRASH_S)
    process.kill()
    process.wait()
    rows = sorted(site.sql("SELECT id, cents, note FROM orders"))
    assert rows == (right() if step == "committed" else before)
    command(site, config, "rebuild", "orders", "--quiet")
    assert sorted(site.sql("SELECT id, cents, note FROM orders")) == right()


def test_a_state_is_rebuilt_as_one_version(site: Site) -> None:
    changes, job = Changes(seed=6), Job(site)
    config = site.config(f'[state.pairs]\nservice = "{SERVICE}"\n')
    job.write(1, changes.next(1, 20))
    with site.running(config):
        site.until(lambda: reaches(site, 1), "the first version")
        site.sql("DELETE FROM total")
        site.sql("UPDATE parts SET count = 77")
        site.sql("INSERT INTO total (key, count) VALUES ('extra', 1)")
        job.write(2, changes.next(2, 20))
        rebuild(config, "pairs")
        with reading(site) as connection:
            assert read(connection) == (2, changes.at[2])
        job.write(3, changes.next(3, 20))
        site.until(lambda: reaches(site, 3), "the version after it")
        with reading(site) as connection:
            assert read(connection) == (3, changes.at[3])


def test_the_status_shows_positions_lag_and_what_stopped(spoiled: tuple[Site, Path]) -> None:
    site, config = spoiled
    site.send("orders", [("k100", {"id": "k100", "cents": 100})])
    status = json.loads(command(site, config, "status", "--json"))
    assert sum(p["lag"] for p in status["partitions"]) == 1
    assert [p["stopped"] for p in status["partitions"]] == ["", ""]
    assert status["outbox"] == 0
