"""The first loads of tables: other inputs are read once each partition of each table has the end of one.

The planner looks for them in the logs, and writes into the plan where they end. Until then the table's partitions have
no time, so the watermark stands, and a step never sees a table that is half there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moneystate.engine.inputs import Inputs
from moneystate.engine.plan import Plan, TopicPartition
from moneystate.engine.processor import Decoder, InputTopic
from moneystate.kafka.client import letter_of
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.kafka.source_spec import SourceSpec


class TableLoads:
    """The first loads of tables in one run."""

    def __init__(self, spec: SourceSpec, decoder: Decoder) -> None:
        self.spec = spec
        self.decoder = decoder
        self.inputs = Inputs(spec.inputs)
        self.scanned: dict[TopicPartition, int] = {}  # up to where the log has no end of a load
        self.found: dict[TopicPartition, int] = {}
        self.reader: RangeReader | None = None

    def look(self, plan: Plan, ends: Mapping[TopicPartition, int]) -> None:
        """Looks for ends of loads in what has been written since the last look."""
        ranges = []
        for tp in unloaded(plan, self.spec.inputs):
            start, end = self.scanned.get(tp, 0), ends.get(tp, 0)
            if tp not in self.found and start < end:
                ranges.append(Range(self.spec.topic(tp[0]), tp[1], start, end))
        if not ranges:
            return
        if self.reader is None:
            s = self.spec
            self.reader = RangeReader(s.bootstrap_servers, s.extra, s.group, len(ranges))
        prefix = len(self.spec.topic_prefix)
        for message in self.reader.read(ranges):
            letter = letter_of(message)
            tp = (letter.topic[prefix:], letter.partition)
            if tp not in self.found:
                loaded = self.decoder.ends_load(self.inputs.first(tp[0])[0], letter)
                if loaded is not None:
                    self.found[tp] = loaded
        self.scanned.update({(r.topic[prefix:], r.partition): r.end for r in ranges})


def unloaded(plan: Plan, inputs: list[InputTopic]) -> Iterator[TopicPartition]:
    """The partitions of tables whose first load has not ended, as far as the plan knows."""
    waits = {t.name for t in inputs if t.waits}
    for tp, planned in plan.partitions.items():
        if tp[0] in waits and planned.loaded is None:
            yield tp


def is_ready(plan: Plan, inputs: list[InputTopic]) -> bool:
    """Whether the plan has read the first loads of all tables."""
    waits = {t.name for t in inputs if t.waits}
    known = {topic for topic, _ in plan.partitions}
    return waits <= known and all(
        planned.loaded is not None and planned.end > planned.loaded
        for (topic, _), planned in plan.partitions.items()
        if topic in waits
    )
