"""How many connections requests may have, shared by all endpoints of a worker.

While less than half of them are held, an endpoint may have as many as its row says, and connections are kept open for
the next request. From then on connections are scarce: an endpoint may have one, and a connection is closed after its
request. So an endpoint that hangs cannot take what others need.
"""

from __future__ import annotations

from collections.abc import Callable


class Connections:
    """`most`: at a time; `open`: how many there are, those without a request included."""

    def __init__(self, most: int, open: Callable[[], int]) -> None:
        self.most = most
        self.used = 0  # by requests
        self._open = open

    @property
    def held(self) -> int:
        """A request that has just begun has no connection yet."""
        return max(self.used, self._open())

    @property
    def is_full(self) -> bool:
        return self.held >= self.most

    @property
    def is_scarce(self) -> bool:
        return 2 * self.held >= self.most

    def allows(self, in_flight: int) -> bool:
        """Whether an endpoint with so many requests in flight may have another one."""
        return not (self.is_scarce if in_flight else self.is_full)
