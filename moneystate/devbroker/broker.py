"""Starts, stops and kills one Kafka node as a child process."""

from __future__ import annotations

import base64
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

import moneystate
from moneystate.devbroker.config import server_properties
from moneystate.devbroker.jars import Progress, kafka_jars
from moneystate.devbroker.java import find_java
from moneystate.devbroker.record import (
    BrokerRecord,
    config_file,
    remove_record,
    running_process,
    write_record,
)
from moneystate.errors import SetupError

# It takes 1.5 s on an idle machine, and longer where the log is long or the cores are busy; past this it hangs.
START_TIMEOUT_S = 60.0
# A clean stop takes 0.4 s. After this the broker is killed: Kafka recovers its log by itself at the next start.
STOP_TIMEOUT_S = 20.0
POLL_S = 0.05
# Between the choice of a free port and Kafka's taking it another process can be faster; then choose anew, this often.
PORT_ATTEMPTS = 3
LOG_TAIL_LINES = 12


class DevBroker:
    """A broker whose data, configuration, log and record of the process are in `data_dir`.

    `port` 0 means: any free one, chosen at the first start and kept by this object, so that clients find it again. A
    broker ends with the process that started it unless `detach` is set. `heap` is as for -Xmx. `settings` go over the
    broker's own configuration. An object on the folder of a broker that another process started can stop and kill it.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        heap: str = "512m",
        detach: bool = False,
        settings: Mapping[str, str] | None = None,
        progress: Progress = lambda _line: None,
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._port = port
        self._heap = heap
        self._detach = detach
        self._settings = dict(settings or {})
        self._progress = progress
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> BrokerRecord | None:
        """The record of the broker that runs on this folder, whoever started it."""
        live = running_process(self._data_dir)
        return live[0] if live else None

    @property
    def bootstrap_servers(self) -> str:
        return self._record().bootstrap_servers

    @property
    def pid(self) -> int:
        return self._record().pid

    @property
    def log_file(self) -> Path:
        return self._data_dir / "broker.log"

    def start(self) -> None:
        """Start the broker and wait until it answers. Raises SetupError if it does not, with the end of its log."""
        java, jars = find_java(), kafka_jars(self._progress)
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(f"The folder {self._data_dir} cannot be made: {error}.", do="choose another") from error
        with self._locked():
            if running := self.running:
                raise SetupError(
                    f"A broker runs on {self._data_dir} already (process {running.pid}, port {running.port}).",
                    do="stop it first, or choose another folder.",
                )
            for attempts_left in reversed(range(PORT_ATTEMPTS)):
                if self._start_once(java, jars, last=self._port != 0 or attempts_left == 0):
                    return

    def stop(self) -> None:
        """End the broker in an orderly way, and by SIGKILL if it takes too long. Does nothing if none runs."""
        self._end(signal.SIGTERM)
        remove_record(self._data_dir)

    def kill(self) -> None:
        """SIGKILL, as a crash: the record stays behind, as it would."""
        self._end(signal.SIGKILL)

    def _record(self) -> BrokerRecord:
        if running := self.running:
            return running
        raise SetupError(f"No broker runs on {self._data_dir}.", do="start it first.")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._data_dir / "start.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _start_once(self, java: Path, jars: Path, last: bool) -> bool:
        """One attempt with one choice of ports; False if it lost a race for a port and may try again."""
        port = self._port or _free_port()
        _refuse_taken(port)
        config_file(self._data_dir).write_text(server_properties(self._data_dir, port, _free_port(), self._settings))
        self._format_if_new(java, jars)
        log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._spawn(self._command(java, jars, self._heap, "kafka.Kafka", str(config_file(self._data_dir))), port)
        try:
            problem = self._wait_until_up(f"127.0.0.1:{port}")
        except BaseException:
            self.stop()  # ctrl-C or a test's timeout while waiting must not leave a JVM behind
            raise
        if problem is None:
            self._port = port
            return True
        self.stop()
        lost_race = b"Address already in use" in self.log_file.read_bytes()[log_start:]
        if lost_race and not last:
            return False
        raise SetupError(
            f"The broker on port {port} {problem}. The end of {self.log_file}: {self._log_tail()}",
            do="mend what the log names; a damaged development folder may simply be deleted.",
        )

    def _command(self, java: Path, jars: Path, heap: str, main: str, *arguments: str) -> list[str]:
        # A serial collector and the first compiler tier only: the broker shares few cores with Spark, mostly for
        # minutes. Warnings only, or the log grows for ever.
        return [
            *(str(java), f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"),
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
            *("-cp", str(jars / "*"), main, *arguments),
        ]

    def _format_if_new(self, java: Path, jars: Path) -> None:
        if (self._data_dir / "data" / "meta.properties").exists():
            return
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # `=` keeps an id that begins with a dash from being read as an option.
        arguments = [
            "format",
            f"--cluster-id={cluster_id}",
            "--ignore-formatted",
            f"--config={config_file(self._data_dir)}",
        ]
        with self.log_file.open("ab") as log:
            command = self._command(java, jars, "128m", "kafka.tools.StorageTool", *arguments)
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            raise SetupError(
                f"Kafka could not format {self._data_dir / 'data'}: {self._log_tail()}", do="see the message"
            )

    def _spawn(self, command: list[str], port: int) -> None:
        # A session of its own: ctrl-C in the terminal reaches the starter only, which then stops the broker in order.
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._data_dir, start_new_session=True
            )
        write_record(self._data_dir, self._child.pid, port)
        if not self._detach:
            root = str(Path(moneystate.__file__).parent.parent)
            self._watcher = subprocess.Popen(
                [sys.executable, "-m", "moneystate.devbroker", "watch", str(self._data_dir)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
            )

    def _wait_until_up(self, bootstrap_servers: str) -> str | None:
        """None once the broker answers, else what is wrong."""
        assert self._child is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        admin: AdminClient | None = None
        while time.monotonic() < deadline:
            if (code := self._child.poll()) is not None:
                return f"ended at once with exit code {code}"
            if admin is None and _accepts(bootstrap_servers):
                # Made only now: librdkafka backs off after a refused connection, and prints each one.
                admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
            if admin is not None and _answers(admin):
                return None
            time.sleep(POLL_S)
        return f"did not answer within {START_TIMEOUT_S:.0f} s"

    def _end(self, first_signal: signal.Signals) -> None:
        if self._watcher is not None:
            # Before the broker: it must not wake up when the broker's id may be another's.
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        if live := running_process(self._data_dir):
            _end_process(live[1], first_signal)
        if self._child is not None:
            self._child.wait()
            self._child = None

    def _log_tail(self) -> str:
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        # Without the frames of stack traces, which would push out the exceptions' own lines.
        lines = [line.strip() for line in text.splitlines() if not line.startswith("\tat ")]
        return " | ".join(lines[-LOG_TAIL_LINES:]) or "(empty)"


def _end_process(process: psutil.Process, first_signal: signal.Signals) -> None:
    try:
        process.send_signal(first_signal)  # psutil checks again that the id has not been taken by another process
        process.wait(STOP_TIMEOUT_S)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(STOP_TIMEOUT_S)
    except psutil.NoSuchProcess:
        pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: closed connections do not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise SetupError(
                f"The broker cannot have port {port} on 127.0.0.1: {error.strerror}.",
                do="stop what listens there, or choose another with --port.",
            ) from error


def _accepts(bootstrap_servers: str) -> bool:
    host, _, port = bootstrap_servers.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _answers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False
