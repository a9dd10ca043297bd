"""Small stories told to the enrichment in memory: what is sent, and what came of it."""

from __future__ import annotations

from typing import Any

from tests.enrichment import topics
from tests.enrichment.harness import inputs, leftovers, simulation
from tests.reference import codec
from tests.reference.builder import LogBuilder, ms
from tests.reference.model import LOOKUP_RESULTS, Rules

RULES = Rules(
    bound_ms=10_000,
    session_ttl_ms=100_000,
    dedup_ttl_ms=50_000,
    session_wait_ms=30_000,
    max_future_ms=600_000,
    lookup=True,
)
WITHOUT_LOOKUP = Rules(**{**{name: getattr(RULES, name) for name in RULES.__slots__}, "lookup": False})
LONG_AFTER = 10_000.0


class Story(LogBuilder):
    """A log that is played in batches: `play` sends what was appended since the last time."""

    def __init__(self, rules: Rules = RULES) -> None:
        super().__init__()
        self.sim = simulation(rules, [*self.partitions, (LOOKUP_RESULTS, 0)], 4)
        self.sent = 0

    def play(self, until: float | None = None, drain: bool = False) -> None:
        """One batch; with heartbeats, so that all before `until` is processed."""
        if until is not None:
            self.beats(until + 10)
        self.sim.batch(inputs(self.records[self.sent :]), drain=drain)
        self.sent = len(self.records)

    def values(self) -> list[dict[str, Any]]:
        values = [value or b"" for stream, _, value, _ in self.sim.outputs if stream == topics.ENRICHED]
        return [codec.decode(value)[1] for value in values]

    def out(self) -> list[tuple[str, str]]:
        """(money id, status) as put out."""
        return [(value["money"]["id"], value["sessionStatus"]) for value in self.values()]

    def countries(self) -> list[str | None]:
        """Returns the countries of the sessions that were joined or looked up."""
        infos = [value["sessionInfo"] for value in self.values()]
        return [None if info is None else info["clientCountryCode"] for info in infos]

    def asked(self) -> list[tuple[str, float, str]]:
        """(money id, requestedAt in seconds, reason) of the lookups."""
        values = [value or b"" for stream, _, value, _ in self.sim.outputs if stream == topics.LOOKUP_REQUESTS]
        fields = [codec.decode(value)[1] for value in values]
        return [(f["moneyId"], (f["requestedAt"] - ms(0)) / 1000, f["reason"]) for f in fields]

    def left(self) -> dict[str, int]:
        """What is left in state that is to be removed some day."""
        return leftovers(self.sim)

    def count(self, name: str) -> int:
        return self.sim.counts.get(name, 0)
