"""The state of a service as tables: who reads several tables at once sees one version of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from moneystate.apply.config_file import read_settings
from moneystate.apply.process import ddl_of
from tests.apply.changelog import CHANGED_AT, SERVICE, Changes, Job, Tables
from tests.apply.harness import Site

STATE = f"""
[state.pairs]
service = "{SERVICE}"
schema = "public"
"""


def read(connection: psycopg.Connection[Any]) -> tuple[int, Tables] | None:
    """The version and both tables, in one transaction."""
    with connection.transaction():
        version = connection.execute("SELECT batch FROM moneystate_versions").fetchone()
        totals = connection.execute("SELECT key, count FROM total").fetchall()
        parts = connection.execute("SELECT key, id, count FROM parts").fetchall()
    if version is None:
        return None
    return version[0], (dict(totals), {(key, id): n for key, id, n in parts})


@contextmanager
def reading(site: Site) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(site.dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        yield connection


def reaches(site: Site, batch: int) -> bool:
    return site.sql("SELECT batch FROM moneystate_versions") == [(batch,)]


def test_each_read_sees_exactly_one_version(site: Site) -> None:
    _read_beside_changes(site, versions=40, reads=150)


@pytest.mark.long
def test_two_thousand_reads_see_exactly_one_version_each(site: Site) -> None:
    """Beside some 300 changes a second."""
    _read_beside_changes(site, versions=300, reads=2_000)


def _read_beside_changes(site: Site, versions: int, reads: int) -> None:
    changes, job = Changes(seed=1), Job(site)
    written = threading.Event()

    def write() -> None:
        for batch in range(1, versions):
            job.write(batch, changes.next(batch, 10))
        written.set()

    config = site.config(STATE)
    job.write(0, changes.next(0, 10))
    with site.running(config):
        site.until(lambda: reaches(site, 0), "the first version")
        thread = threading.Thread(target=write)
        thread.start()
        seen: set[int] = set()
        with reading(site) as connection:
            while not (written.is_set() and reaches(site, versions - 1) and reads <= 0):
                reads -= 1
                version, tables = read(connection) or (-1, ({}, {}))
                assert tables == changes.at[version], f"version {version}"
                seen.add(version)
        thread.join()
    assert len(seen) > 3


def test_a_version_is_applied_once_all_of_it_is_there_and_later_parts_wait(site: Site) -> None:
    changes, job = Changes(seed=3), Job(site)
    config = site.config(STATE)
    job.write(1, changes.next(1, 20))
    with site.running(config):
        site.until(lambda: reaches(site, 1), "the first version")
        second = changes.next(2, 20)
        job.write(2, second, outputs=[0])
        third = changes.next(3, 20)
        job.write(3, third, outputs=[0])
        job.write(2, second, outputs=[1])
        site.until(lambda: reaches(site, 2), "the second version")
        with reading(site) as connection:
            assert read(connection) == (2, changes.at[2])
    job.write(3, third, outputs=[1])
    with site.running(config):  # what was held is read again
        site.until(lambda: reaches(site, 3), "the third version")
        with reading(site) as connection:
            assert read(connection) == (3, changes.at[3])


@pytest.mark.parametrize(
    "step", ["committed", *[pytest.param(s, marks=pytest.mark.long) for s in ("begun", "locked", "applied", "moved")]]
)
def test_a_kill_after_a_step_leaves_a_whole_version(site: Site, step: str) -> None:
    changes, job = Changes(seed=7), Job(site)
    config = site.config(STATE)
    job.write(1, changes.next(1, 20))
    with site.running(config):
        site.until(lambda: reaches(site, 1), "the first version")
    job.write(2, changes.next(2, 20))
    reached = site.folder / "reached"
    process = site.start(config, environ={"MONEYSTATE_PAUSE_AT": step, "MONEYSTATE_PAUSE_FILE": str(reached)})
    site.until(reached.exists, f"the step {step}")
    process.kill()
    process.wait()
    with reading(site) as connection:
        version, tables = read(connection) or (0, ({}, {}))
        assert tables == changes.at[version]
    job.write(3, changes.next(3, 20))
    with site.running(config):
        site.until(lambda: reaches(site, 3), "the last version")
        with reading(site) as connection:
            assert read(connection) == (3, changes.at[3])


def test_personal_fields_have_no_column_and_expiring_entries_show_when(site: Site) -> None:
    changes, job = Changes(seed=4), Job(site)
    config = site.config(STATE)
    ddl = "\n".join(ddl_of(read_settings(config)))
    assert '"share" double precision' in ddl
    assert '"name"' not in ddl
    job.write(1, changes.next(1, 20))
    with site.running(config):
        site.until(lambda: reaches(site, 1), "the version")
    expires = site.sql("SELECT DISTINCT extract(epoch FROM expires_at)::int, tags FROM parts")
    assert expires == [((CHANGED_AT + 1_000) // 1_000, ["x"])]


def test_a_new_epoch_goes_on_in_the_same_tables(site: Site) -> None:
    changes = Changes(seed=5)
    Job(site).write(7, changes.next(7, 20))
    config = site.config(STATE)
    with site.running(config):
        site.until(lambda: reaches(site, 7), "the version of the first epoch")
        Job(site, epoch="two").write(0, changes.next(0, 20))
        site.until(lambda: reaches(site, 0), "the version of the second epoch")
        with reading(site) as connection:
            assert read(connection) == (0, changes.at[0])
