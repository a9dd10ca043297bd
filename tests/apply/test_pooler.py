"""Behind a real PgBouncer in transaction mode, which gives each transaction any of its sessions."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from moneystate.devpostgres import process
from tests.apply.harness import Site
from tests.apply.model import LARGE, MOVEMENTS, Balances, movements
from tests.apply.test_operation import BALANCES, TARGETS

ADDRESS = "127.0.0.1"
CONFIG = """
[databases]
* = host={host} port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_round_robin = 1
"""


def fetched_or_installed() -> str | None:
    own = Path(sys.prefix) / "bin" / "pgbouncer"
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or (
        str(own) if own.exists() else None
    )


@contextmanager
def pooled(site: Site, program: str) -> Iterator[str]:
    """The connection string of the site's database behind a pooler. Its files are where the server's user can enter, as
    PgBouncer refuses root, too."""
    server = conninfo_to_dict(site.dsn)
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        own = probe.getsockname()[1]
    folder = site.postgres.home / "pgbouncer"
    folder.mkdir()
    (folder / "pgbouncer.ini").write_text(CONFIG.format(**server, own=own))
    here = shutil.copy(program, folder)
    for library in (Path(sys.prefix) / "lib").glob("libcares.so*"):
        shutil.copy(library, folder)
    pooler = subprocess.Popen(
        [here, "-q", str(folder / "pgbouncer.ini")], stdin=subprocess.DEVNULL, cwd=folder,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, **process.as_server(os.getuid()),
    )  # fmt: skip
    try:
        yield make_conninfo(site.dsn, host=ADDRESS, port=own)
    finally:
        pooler.terminate()
        pooler.wait(30)
        shutil.rmtree(folder)


def answers(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn):
            return True
    except psycopg.OperationalError:
        return False


def test_rows_handlers_and_outbox_work_behind_a_pooler_in_transaction_mode(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fetched_or_installed()
    if program is None:
        pytest.skip("no pgbouncer here")
    site.sql((BALANCES / "tables.sql").read_text())
    site.sql("CREATE TABLE orders (id text PRIMARY KEY, cents bigint)")
    shutil.copy(BALANCES / "balances.py", site.folder)
    monkeypatch.syspath_prepend(str(site.folder))
    for topic in ("orders", MOVEMENTS, LARGE):
        site.topic(topic)
    sent = movements(seed=11, count=300)
    site.send(MOVEMENTS, sent)
    site.send("orders", [(f"o{n % 50}", {"id": f"o{n % 50}", "cents": n}) for n in range(300)])
    model = Balances(sent)
    with pooled(site, program) as dsn:
        site.until(lambda: answers(dsn), "the pooler")
        (site.folder / "dsn").write_text(dsn)
        with site.running(site.config(TARGETS)):
            site.until(lambda: model.rows == Balances.stored(site), "the rows of the handler")
            site.until(lambda: site.sql("SELECT count(*), sum(cents) FROM orders") == [(50, 13_725)], "the rows")
            site.until(lambda: not site.sql("SELECT 1 FROM moneystate_outbox"), "an empty outbox")
        sessions = site.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        assert sessions > [(1,)], "the pooler has one session only, so nothing is shown"
