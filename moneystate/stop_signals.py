"""SIGTERM and Ctrl-C end a command that runs until it is stopped."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager


class StopSignals:
    """Whether SIGTERM or SIGINT has come. `fileno` makes it an argument for `select`."""

    def __init__(self, readable: int) -> None:
        self._readable = readable

    def fileno(self) -> int:
        return self._readable

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for a signal, without a time for as long as it takes. False: the time has passed without one."""
        return bool(select.select([self._readable], [], [], timeout_s)[0])

    def is_set(self) -> bool:
        return self.wait(0)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Catches the signals until the end of the block. A command enters it before it says that it is ready.

    A pipe tells of a signal: a handler must not take a lock, as that of `threading.Event` would.
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
