"""Stops commands that run until SIGTERM or Ctrl-C, and keeps these signals from their helper processes."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# A terminal sends the last two to a process group, `timeout` the first. systemd sends it to all processes of a unit.
FOR_THE_COMMAND: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """Tells whether SIGTERM or SIGINT was received. Because of `fileno`, `select` accepts it."""

    def __init__(self, readable: int) -> None:
        self._readable = readable

    def fileno(self) -> int:
        return self._readable

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for a signal; without a timeout, forever. False: there was none within the timeout."""
        return bool(select.select([self._readable], [], [], timeout_s)[0])

    def is_set(self) -> bool:
        return self.wait(0)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Catches the signals until the end of the block. A command enters it before it reports that it is ready.

    The handler writes to a pipe, because it must not take a lock, which `threading.Event` would do.
    """
    readable, writable = os.pipe()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: os.write(writable, b".")) for number in numbers]
    try:
        yield StopSignals(readable)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        os.close(readable)
        os.close(writable)


def leave_stop_signals() -> None:
    """Makes a helper process ignore the signals, as do the processes that it starts. Else it could end while the
    command, which gets them too, still needs it. It must notice by itself when the command ends."""
    for number in FOR_THE_COMMAND:
        signal.signal(number, signal.SIG_IGN)
