"""How fast topics grow that pages have drawn."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from moneystate.console.jobs import Jobs
from moneystate.errors import BrokerError

DRAWN_S: Final = 60.0  # for so long after a page has drawn it a topic is looked at


class Rates:
    """`of_topics`: offsets a second between the last two looks. The end of a transaction takes an offset, too."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.drawn_s: dict[str, float] = {}
        self.ends: dict[str, tuple[float, int]] = {}
        self.of_topics: dict[str, float] = {}

    def draw(self, topics: Iterable[str]) -> None:
        self.drawn_s.update(dict.fromkeys(topics, time.monotonic()))

    def look(self) -> None:
        """Blocks."""
        now = time.monotonic()
        self.drawn_s = {topic: drawn_s for topic, drawn_s in self.drawn_s.items() if now - drawn_s < DRAWN_S}
        try:
            ends = self.jobs.ends(self.drawn_s) if self.drawn_s else {}
        except BrokerError:
            ends = {}  # what reads the jobs says it
        before, self.ends = self.ends, {topic: (now, end) for topic, end in ends.items()}
        self.of_topics = {
            topic: (end - before[topic][1]) / max(now - before[topic][0], 0.001)
            for topic, end in ends.items() if topic in before
        }  # fmt: skip
