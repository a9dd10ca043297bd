"""Reads records again by their places, for dead letters: the log has the original bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from moneystate.engine import deadletter
from moneystate.engine.deadletter import Letter, Place
from moneystate.engine.items import Output
from moneystate.kafka.client import admin_client, letter_of
from moneystate.kafka.offsets import existing_states, log_ends, log_starts
from moneystate.kafka.ranges import Range, RangeReader

NEAR = 500  # offsets; reading so many records takes as long as another request


class Originals:
    """The records of input topics, for one command or batch."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], topic_prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.extra = extra
        self.topic_prefix = topic_prefix

    def read(self, places: Iterable[Place]) -> dict[Place, Letter]:
        """The records that the log still has. Raises BrokerError."""
        wanted = {(self.full_name(place[0]), place[1], place[2]): place for place in places}
        letters: dict[Place, Letter] = {}
        there = self._there(wanted)
        if not there:
            return letters
        reader = RangeReader(self.bootstrap_servers, self.extra, f"{self.topic_prefix or 'moneystate'}-dead-letters")
        try:
            for one in _ranges(there):
                for message in map(letter_of, reader.read([one])):
                    place = wanted.get((message.topic, message.partition, message.offset))
                    if place is not None:
                        letters[place] = message
        finally:
            reader.consumer.close()
        return letters

    def full_name(self, topic: str) -> str:
        """A letter of the source has the topic with its prefix, one of a step without."""
        return topic if topic.startswith(self.topic_prefix) else self.topic_prefix + topic

    def _there(self, wanted: Iterable[Place]) -> list[Place]:
        """The places within the log, sorted."""
        places = sorted(wanted)
        if not places:
            return places
        admin = admin_client(self.bootstrap_servers, self.extra)
        states = existing_states(admin, sorted({topic for topic, _, _ in places}))
        partitions = {(t, p) for t, p, _ in places if t in states and p in states[t].partitions}
        starts, ends = log_starts(admin, partitions), log_ends(admin, partitions)
        return [(t, p, o) for t, p, o in places if (t, p) in ends and starts[t, p] <= o < ends[t, p]]

    def restored(self, outputs: list[Output], stream: int) -> list[Output]:
        """The outputs, with the original records in the letters of steps. `stream`: of the dead letters. A letter whose
        record is no longer in the log keeps its canonical value."""
        places = {n: deadletter.place_of_step(o[3]) for n, o in enumerate(outputs) if o[0] == stream}
        letters = self.read([place for place in places.values() if place is not None])
        made = list(outputs)
        for n, place in places.items():
            if place is not None and place in letters:
                made[n] = (stream, *deadletter.restored(outputs[n][3], letters[place]))
        return made


def _ranges(places: list[Place]) -> Iterator[Range]:
    """Ranges that have all places, which are sorted."""
    for (topic, partition), mine in groupby(places, lambda place: place[:2]):
        offsets = [offset for _, _, offset in mine]
        start = offsets[0]
        for before, offset in zip(offsets, [*offsets[1:], None], strict=True):
            if offset is None or offset - before > NEAR:
                yield Range(topic, partition, start, before + 1)
                start = offset or 0
