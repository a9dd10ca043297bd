"""Starts, stops and kills one Kafka node as a child process."""

from __future__ import annotations

import base64
import fcntl
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from moneystate.devbroker.config import server_properties
from moneystate.devbroker.jars import Progress, kafka_jars
from moneystate.devbroker.java import find_java
from moneystate.devbroker.record import ServerRecord, config_file
from moneystate.devbroker.server_process import ADDRESS, ServerProcess, free_port, java_command
from moneystate.errors import SetupError

# A start takes 1.5 s on an idle machine, and longer if the log is long or the cores are busy. After this time it hangs.
START_TIMEOUT_S = 60.0
POLL_S = 0.05
# Another process may take the free port before Kafka does. Then another port is chosen, up to this often.
PORT_ATTEMPTS = 3


class DevBroker:
    """A broker whose data, configuration, log and process record are in one folder.

    An object on the folder of a broker that another process started can stop and kill it.
    """

    def __init__(
        self,
        data_dir: Path,
        # 0: any free one, chosen at the first start and kept by this object, so that clients find it again
        port: int = 0,
        *,
        heap: str = "512m",  # as for -Xmx
        detach: bool = False,  # False: the broker ends with the process that started it
        settings: Mapping[str, str] | None = None,  # override the broker's own configuration
        cluster_id: str = "",  # of a cluster of several nodes; empty: a new one
        environment: Mapping[str, str] | None = None,  # of the broker's process, beside this process's own
        progress: Progress = lambda _line: None,
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._port = port
        self._heap = heap
        self._detach = detach
        self._settings = dict(settings or {})
        self._cluster_id = cluster_id or new_cluster_id()
        self._environment = dict(environment or {})
        self._progress = progress
        self._process = ServerProcess(self._data_dir, "broker.log")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> ServerRecord | None:
        """The record of the broker that runs on this folder, whoever started it."""
        return self._process.running

    @property
    def bootstrap_servers(self) -> str:
        return self._record().address

    @property
    def pid(self) -> int:
        return self._record().pid

    @property
    def log_file(self) -> Path:
        return self._process.log_file

    def start(self) -> None:
        """Starts the broker and waits until it answers. Raises SetupError, with the end of its log, if it does not."""
        java, jars = find_java(), kafka_jars(self._progress)
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"{self._data_dir}: expected to create the folder, but {error}.", do="choose another folder."
            ) from error
        with self._locked():
            if running := self.running:
                raise SetupError(
                    f"{self._data_dir}: expected no running broker, found one (process {running.pid}, "
                    f"port {running.port}).",
                    do="stop it first, or choose another folder.",
                )
            for attempts_left in reversed(range(PORT_ATTEMPTS)):
                if self._start_once(java, jars, last=self._port != 0 or attempts_left == 0):
                    return

    def stop(self) -> None:
        """Stops the broker cleanly, or with SIGKILL if that takes too long. Does nothing if none runs."""
        self._process.stop()

    def kill(self) -> None:
        """Sends SIGKILL, like a crash. The process record stays behind."""
        self._process.kill()

    def _record(self) -> ServerRecord:
        if running := self.running:
            return running
        raise SetupError(f"{self._data_dir}: expected a running broker, found none.", do="start it first.")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._data_dir / "start.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _start_once(self, java: Path, jars: Path, last: bool) -> bool:
        """Makes one attempt with one choice of ports. False: another process took a port, and the caller may try
        again."""
        port = self._port or free_port()
        _refuse_taken(port)
        config_file(self._data_dir).write_text(server_properties(self._data_dir, port, free_port(), self._settings))
        self._format_if_new(java, jars)
        log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        command = java_command(java, jars, self._heap, "kafka.Kafka", str(config_file(self._data_dir)))
        self._process.spawn(command, port, self._environment, detach=self._detach)
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
            f"The broker on port {port} {problem}. The end of {self.log_file}: {self._process.log_tail()}",
            do="fix the problem that the log names; a damaged development folder can be deleted.",
        )

    def _format_if_new(self, java: Path, jars: Path) -> None:
        if (self._data_dir / "data" / "meta.properties").exists():
            return
        # `=` keeps an id that begins with a dash from being read as an option.
        arguments = [
            "format",
            f"--cluster-id={self._cluster_id}",
            "--ignore-formatted",
            f"--config={config_file(self._data_dir)}",
        ]
        with self.log_file.open("ab") as log:
            command = java_command(java, jars, "128m", "kafka.tools.StorageTool", *arguments)
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            raise SetupError(
                f"{self._data_dir / 'data'}: expected Kafka to format it, but: {self._process.log_tail()}",
                do="fix the problem that the message names, or delete the folder.",
            )

    def _wait_until_up(self, bootstrap_servers: str) -> str | None:
        """Waits until the broker answers. Returns None, or what is wrong."""
        deadline = time.monotonic() + START_TIMEOUT_S
        admin: AdminClient | None = None
        while time.monotonic() < deadline:
            if (code := self._process.exit_code) is not None:
                return f"ended at once with exit code {code}"
            if admin is None and _accepts(bootstrap_servers):
                # Created only now, because librdkafka backs off after each refused connection and prints it.
                admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
            if admin is not None and _answers(admin):
                return None
            time.sleep(POLL_S)
        return f"did not answer within {START_TIMEOUT_S:.0f} s"


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: closed connections do not count
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise SetupError(
                f"port {port} on 127.0.0.1: expected a free port for the broker, but {error.strerror}.",
                do="stop the process that listens there, or choose another port with --port.",
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
