"""What the threads of all targets do alike: how one starts and ends, its connection, and how it tries again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg

from moneystate.apply.counts import FIRST_WAIT_S, LONGEST_WAIT_S, Counts
from moneystate.apply.database import Connected, Database, said
from moneystate.errors import JobError, MoneystateError
from moneystate.log import get_log
from moneystate.monitoring import Pulse

_log = get_log(__name__)

ATTEND_MOST_S = 0.5  # in one look at the group, so that an end is noticed


class TargetThread:
    """A target at work in a thread of its own."""

    def __init__(self, name: str, database: Database) -> None:
        self.counts = Counts()
        self.pulse = Pulse()
        self.error: MoneystateError | None = None
        self._name = name
        self._database = database
        self._stopped = threading.Event()
        self._connection: Connected | None = None
        self._wait_s = FIRST_WAIT_S
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks for the end. The current step ends first."""
        self._stopped.set()

    def join(self, timeout_s: float | None = None) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._work()
        except MoneystateError as e:
            self.error = e
        finally:
            self.pulse.end()

    def _work(self) -> None:
        """Works until it is stopped. Raises the MoneystateError with which the target cannot go on."""
        raise NotImplementedError

    def _refused(self, error: psycopg.Error) -> JobError:
        return JobError(
            f"target {self._name}: expected the database to take its rows, but {said(error)}.",
            "check the tables and the grants (docs/security.md).",
        )

    def _fail(self, why: str, attend: Callable[[float], None]) -> None:
        """Waits before the next attempt, longer each time. `attend`: keeps the process in its group for so many
        seconds."""
        self._disconnect()
        self.counts.retries += 1
        if why != self.counts.trouble:
            _log.warning("tried again", target=self._name, why=why)
        self.counts.trouble = why
        deadline = time.monotonic() + self._wait_s
        while not self._stopped.is_set() and (left := deadline - time.monotonic()) > 0:
            self.pulse.beat()
            attend(min(left, ATTEND_MOST_S))
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)

    def _succeed(self) -> None:
        self.counts.trouble = ""
        self._wait_s = FIRST_WAIT_S

    def _connected(self) -> Connected:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
