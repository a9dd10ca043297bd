"""Spreads the follower's writes of one batch over time, so that readers keep answering.

A batch's changes come at once. Written in one go, they would keep readers busy with taking over for as long, in which
those answer nothing. Spread over more time than there is, the follower would never be done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PAUSE_S: Final = 0.0025  # between two writes: a reader takes one over in a tenth of it
SPREAD_S: Final = 0.2  # in all, until the log's end is reached again: half of a batch's time


class WriteThrottle:
    """`pause` between two writes, `at_the_end` where all there is has been read."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self.sleep = sleep
        self.left_s = 0.0

    def at_the_end(self) -> None:
        self.left_s = SPREAD_S

    def pause(self) -> None:
        if self.left_s > 0:
            self.left_s -= PAUSE_S
            self.sleep(PAUSE_S)
