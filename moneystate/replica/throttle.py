"""Spreads the follower's writes of one batch over time, so that readers keep answering.

A batch's changes arrive at once. Written without pauses, they would keep readers busy with catching up, and readers do
not answer meanwhile. If the pauses took too long, the follower would fall behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PAUSE_S: Final = 0.0025  # between two writes; a reader catches up with one in a tenth of this time
SPREAD_S: Final = 0.2  # in total, until the log's end is reached again: half of a batch's time


class WriteThrottle:
    """Call `pause` between two writes, and `at_the_end` when the whole log has been read."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self.sleep = sleep
        self.left_s = 0.0

    def at_the_end(self) -> None:
        self.left_s = SPREAD_S

    def pause(self) -> None:
        if self.left_s > 0:
            self.left_s -= PAUSE_S
            self.sleep(PAUSE_S)
