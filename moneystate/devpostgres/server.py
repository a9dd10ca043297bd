"""Starts, stops and crashes one PostgreSQL server as a child process."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg

import moneystate
from moneystate.devpostgres import process
from moneystate.devpostgres.binaries import Progress, postgres_binaries
from moneystate.devpostgres.certificate import self_signed
from moneystate.errors import SetupError

ADDRESS: Final = "127.0.0.1"
SUPERUSER: Final = "postgres"
START_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.02
# Another process may take the free port before the server does. Then another port is chosen, up to this often.
PORT_ATTEMPTS: Final = 3
LOG_TAIL_LINES: Final = 8
SETTINGS: Final = {
    "listen_addresses": ADDRESS,
    "unix_socket_directories": "",
    "ssl": "on",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    # Files are not synced: the data outlives the server's processes, not the machine.
    "fsync": "off",
    "full_page_writes": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class DevPostgres:
    """A server whose programs, data and log are in one new temporary folder, which goes with it.

    The folder is not the caller's to choose, because as root the server runs as another user, who can enter neither
    root's home nor the folders of root's tests. `stop` and `start` keep the data; `close` removes it.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,  # override the server's own configuration
        detach: bool = False,  # False: the server ends with the process that started it
        progress: Progress = lambda _line: None,
    ) -> None:
        self._settings = {**SETTINGS, **(settings or {})}
        self._detach = detach
        self._progress = progress
        self._port = 0
        self._password = secrets.token_hex(16)
        self._home: Path | None = None
        self._bin: Path | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def home(self) -> Path:
        assert self._home is not None, "the server has not been started"
        return self._home

    @property
    def port(self) -> int:
        return self._port

    @property
    def log_file(self) -> Path:
        return self.home / "log"

    def dsn(self, database: str = SUPERUSER, user: str = SUPERUSER, password: str = "", *, tls: bool = False) -> str:
        """The connection string of a user. `tls`: with TLS and a check of the server's certificate."""
        given = password or self._password
        ssl = f"verify-full sslrootcert={self.home / 'server.crt'}" if tls else "disable"
        return f"host={ADDRESS} port={self._port} dbname={database} user={user} password={given} sslmode={ssl}"

    def start(self) -> None:
        """Starts the server and waits until it answers. Raises SetupError, with the end of its log, if it does not."""
        if self._home is None:
            self._create()
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            if self._start_once(last=attempts_left == 0):
                return

    def stop(self) -> None:
        """Stops the server cleanly and cuts its connections. Does nothing if none runs."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Stops the server immediately, like a crash: it recovers at the next start."""
        self._end(signal.SIGQUIT)

    def close(self) -> None:
        """Stops the server and removes its folder."""
        if self._home is not None:
            self._end(signal.SIGQUIT)
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    @property
    def _data(self) -> Path:
        return self.home / "data"

    def _create(self) -> None:
        programs = postgres_binaries(self._progress)
        self._home = Path(tempfile.mkdtemp(prefix="moneystate-postgres-", dir=process.home_root())).resolve()
        process.give(self._home)
        if os.getuid() == 0 and not process.reachable(programs):
            programs = Path(shutil.copytree(programs.parent, self._home / "programs")) / programs.name
        self._bin = programs
        self._write("password", self._password.encode())
        certificate, key = self_signed(ADDRESS)
        self._write("server.crt", certificate)
        self._write("server.key", key)
        arguments = [f"--pgdata={self._data}", f"--username={SUPERUSER}", f"--pwfile={self._home / 'password'}"]
        done = self._run(
            [str(programs / "initdb"), *arguments, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        )
        (self._home / "password").unlink()
        if done != 0:
            raise SetupError(
                f"{self._data}: expected initdb to create it, but: {self._log_tail()}",
                "fix the problem that the message names.",
            )

    def _write(self, name: str, content: bytes) -> None:
        path = self.home / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        process.give(path)

    def _run(self, command: list[str]) -> int:
        with self.log_file.open("ab") as log:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, check=False,
                **process.as_server(os.getuid()),
            ).returncode  # fmt: skip

    def _start_once(self, last: bool) -> bool:
        """Makes one attempt. False: another process took the port, and the caller may try again."""
        port = self._port or _free_port()
        log_start = self.log_file.stat().st_size
        self._spawn(port)
        self._port, before = port, self._port
        try:
            problem = self._wait_until_up()
        except BaseException:
            self.stop()  # Ctrl-C or a test's timeout while waiting must not leave a server behind
            raise
        if problem is None:
            return True
        self.stop()
        self._port = before
        lost_race = b"could not bind" in self.log_file.read_bytes()[log_start:]
        if lost_race and not last and not before:
            return False
        raise SetupError(
            f"PostgreSQL on port {port} {problem}. The end of {self.log_file}: {self._log_tail()}",
            "fix the problem that the log names.",
        )

    def _spawn(self, port: int) -> None:
        assert self._bin is not None
        own = {"ssl_cert_file": str(self.home / "server.crt"), "ssl_key_file": str(self.home / "server.key")}
        settings = {**self._settings, **own, "port": str(port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        # It runs in its own session, so that Ctrl-C in the terminal only reaches the starter.
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self._data), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, start_new_session=True,
                **process.as_server(os.getuid()),
            )  # fmt: skip
        if not self._detach and self._watcher is None:
            root = str(Path(moneystate.__file__).parent.parent)
            self._watcher = subprocess.Popen(
                [sys.executable, "-m", "moneystate.devpostgres", "watch", str(self.home)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
            )  # fmt: skip

    def _wait_until_up(self) -> str | None:
        """Waits until the server answers. Returns None, or what is wrong."""
        assert self._child is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if (code := self._child.poll()) is not None:
                return f"ended at once with exit code {code}"
            try:
                psycopg.connect(self.dsn(), connect_timeout=2).close()
                return None
            except psycopg.OperationalError:
                time.sleep(POLL_S)
        return f"did not answer within {START_TIMEOUT_S:.0f} s"

    def _end(self, how: signal.Signals) -> None:
        if self._watcher is not None:
            # The watcher ends before the server, so that it does not act when the process id may belong to another
            # process.
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        process.end(self._data, how)
        if self._child is not None:
            self._child.wait()
            self._child = None

    def _log_tail(self) -> str:
        lines = [line.strip() for line in self.log_file.read_text(errors="replace").splitlines()]
        return " | ".join(lines[-LOG_TAIL_LINES:]) or "(empty)"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port
