"""Stops commands that run until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager


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
