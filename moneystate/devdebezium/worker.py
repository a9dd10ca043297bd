"""Starts, stops and kills one Kafka Connect, and tells its connectors what to do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from moneystate.devbroker.jars import Progress
from moneystate.devbroker.java import find_java
from moneystate.devbroker.record import config_file
from moneystate.devbroker.server_process import ADDRESS, ServerProcess, free_port, java_command
from moneystate.devdebezium.connector import JSON_CONVERTER, Connector
from moneystate.devdebezium.jars import debezium_jars
from moneystate.devdebezium.rest import PAUSED, RUNNING, Rest
from moneystate.errors import SetupError

MAIN: Final = "org.apache.kafka.connect.cli.ConnectStandalone"
# A start takes 4 s on an idle machine. After this time it hangs.
START_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.1
# Another process may take the free port before Connect does. Then another port is chosen, up to this often.
PORT_ATTEMPTS: Final = 3


class DevDebezium:
    """A standalone worker whose configuration, offsets, log and process record are in one folder.

    The offsets outlive `stop` and `kill`: after `start` its connectors go on where they were. What they had sent since
    the last offsets were written, they send again.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap_servers: str,
        *,
        heap: str = "256m",  # as for -Xmx
        offsets_every_ms: int = 1_000,  # how often offsets are written
        progress: Progress = lambda _line: None,
    ) -> None:
        self._folder = folder.absolute()
        self._bootstrap_servers = bootstrap_servers
        self._heap = heap
        self._offsets_every_ms = offsets_every_ms
        self._progress = progress
        self._connectors: dict[str, Connector] = {}
        self._process = ServerProcess(self._folder)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """None: the worker does not run."""
        running = self._process.running
        return running.pid if running else None

    @property
    def connectors(self) -> list[str]:
        """The names of its connectors."""
        return list(self._connectors)

    @property
    def log_file(self) -> Path:
        return self._process.log_file

    def start(self) -> None:
        """Starts the worker with the connectors that it had, and waits until they stream changes.

        Raises SetupError, with the end of its log, if they do not.
        """
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            if self._start_once(last=attempts_left == 0):
                return

    def stop(self) -> None:
        """Stops the worker cleanly: it writes its offsets. Does nothing if none runs."""
        self._process.stop()

    def kill(self) -> None:
        """Sends SIGKILL, like a crash."""
        self._process.kill()

    def create(self, connector: Connector) -> None:
        """Adds a connector, or changes its settings, and waits until it streams changes. Raises SetupError."""
        self._rest.tell("PUT", f"{connector.name}/config", connector.config())
        self._connectors[connector.name] = connector
        self._await_streaming(connector)

    def delete(self, name: str) -> None:
        """Removes a connector and its slot, which would make the database keep its log."""
        connector = self._connectors.pop(name)
        self._rest.tell("DELETE", name)
        self._until(connector.drop_slot, f"connector {name} to let its slot go")

    def pause(self, name: str) -> None:
        """Nothing is sent from the return on."""
        self._rest.tell("PUT", f"{name}/pause")
        self._until(lambda: set(self._rest.states(name)) == {PAUSED}, f"connector {name} to pause")

    def resume(self, name: str) -> None:
        self._rest.tell("PUT", f"{name}/resume")
        self._await_streaming(self._connectors[name])

    def restart(self, name: str) -> None:
        """Replaces the connector and its task."""
        self._rest.tell("POST", f"{name}/restart?includeTasks=true")
        self._await_streaming(self._connectors[name])

    @property
    def _rest(self) -> Rest:
        running = self._process.running
        if running is None:
            raise SetupError(f"{self._folder}: expected a running worker, found none.", do="start it first.")
        return Rest(running.port)

    def _start_once(self, last: bool) -> bool:
        """Makes one attempt. False: another process took the port, and the caller may try again."""
        java, jars = find_java(), debezium_jars(self._progress)
        port = free_port()
        files = self._write_files(port)
        log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process.spawn(java_command(java, jars, self._heap, MAIN, *map(str, files)), port)
        try:
            self._until(Rest(port).answers, f"an answer on port {port}")
            for connector in self._connectors.values():
                self._await_streaming(connector)
        except BaseException as error:
            self.stop()  # Ctrl-C or a test's timeout while waiting must not leave a JVM behind
            lost_race = b"Failed to bind" in self.log_file.read_bytes()[log_start:]
            if last or not lost_race or not isinstance(error, SetupError):
                raise
            return False
        return True

    def _write_files(self, port: int) -> list[Path]:
        """The arguments of the worker: its configuration, then a file for each connector."""
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "bootstrap.servers": self._bootstrap_servers,
            "listeners": f"http://{ADDRESS}:{port}",
            "offset.storage.file.filename": str(self._folder / "offsets"),
            "offset.flush.interval.ms": str(self._offsets_every_ms),
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            # The jars are on the class path. They are not searched for classes without a service file, which takes 2 s.
            "plugin.discovery": "service_load",
        }
        worker_file = config_file(self._folder)
        worker_file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        files = [worker_file]
        for connector in self._connectors.values():
            file = self._folder / f"{connector.name}.json"
            file.touch(mode=0o600)
            file.write_text(json.dumps({"name": connector.name, "config": connector.config()}))
            files.append(file)
        return files

    def _await_streaming(self, connector: Connector) -> None:
        def streams() -> bool:
            states = self._rest.states(connector.name)
            return len(states) > 1 and set(states) == {RUNNING} and connector.is_streaming()

        self._until(streams, f"connector {connector.name} to stream changes")

    def _until(self, holds: Callable[[], bool], expected: str) -> None:
        """Raises SetupError if the worker ends, or past the deadline."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not holds():
            if (code := self._process.exit_code) is not None:
                problem = f"the worker ended with exit code {code}"
            elif time.monotonic() > deadline:
                problem = f"not within {START_TIMEOUT_S:.0f} s"
            else:
                time.sleep(POLL_S)
                continue
            raise SetupError(
                f"Kafka Connect: expected {expected}, but {problem}. The end of {self.log_file}: "
                f"{self._process.log_tail()}",
                do="fix the problem that the log names.",
            )
