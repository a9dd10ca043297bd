"""What the steps of a batch write to the outputs, with the headers that say where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moneystate.api.handles import Output
from moneystate.engine.avro import HEADER_BYTES, Malformed, long_bytes, string_bytes
from moneystate.engine.effects import Effects
from moneystate.engine.items import KEY, NO_ITEM, PARTITION, SET_AT, TIME, TOPIC, Header, Item
from moneystate.engine.limits import MAX_KEYS, largest_message
from moneystate.engine.place import PLACE, RECORD_TIME, cause_of, place_of, time_bytes, topic_of, where
from moneystate.errors import StepError
from moneystate.records.codec import Codec
from moneystate.records.reading import checked_time, key_bytes, key_text
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import OutputPlan, TimerPlan

LINEAGE: Final = "lineage"
JSON: Final = "json"
HEADERS: Final = 1_024  # room for those of a record
SURELY_FITS: Final = 64 * 1024  # bytes of a record with its key that every topic takes in every format


class Emission:
    def __init__(self, plan: Plan, largest: int, formats: Mapping[str, str]) -> None:
        self.plan = plan
        self.largest = largest  # bytes of the largest value in Avro that the service declares; 0: it declares none
        self.in_json = {topic for topic, format in formats.items() if format == JSON}
        # Maps topic code, and partition in the order and in the log, to the beginning of a lineage header.
        self.lineage_of: dict[tuple[int, int, int], bytes] = {}
        # These belong to the batch.
        self.last_places: dict[bytes, tuple[bytes, int]] = {}  # by key: cause and number of its last timed record
        # These belong to the current step.
        self.item: Item = NO_ITEM
        self.timer: TimerPlan | None = None  # if the item is one
        self.effects = Effects()
        self.lineage: list[Header] = []  # made when the step first emits a record
        self.cause = b""  # made when it first emits a timed one

    def begin_batch(self) -> None:
        self.last_places = {}

    def begin_step(self, item: Item, timer: TimerPlan | None, effects: Effects) -> None:
        self.item = item
        self.timer = timer
        self.effects = effects
        self.lineage = []
        self.cause = b""

    def emit(self, output: Output[Any], record: object) -> None:
        plan = self._output(output)
        if type(record) is not plan.cls:
            raise StepError(
                f"{output!r}: expected {plan.cls.__name__}, found {type(record).__name__}.",
                f"emit an object of {plan.cls.__name__} itself: a subclass does not count.",
            )
        try:
            keys = plan.keys.keys(record)
        except Malformed as e:
            raise StepError(f"{output!r}: {e}.", "give each record a key.") from None
        in_json = output.topic in self.in_json
        value = plan.codec.encode_for_json(record) if in_json else plan.codec.encode(record)
        lineage = self._lineage_headers()
        dated = self._record_time(plan, record)
        if len(keys) > MAX_KEYS:
            raise StepError(
                f"{output!r}: expected at most {MAX_KEYS:,} keys of one record, found {len(keys):,}.",
                "emit several records.",
            )
        for key in keys:
            if len(key) + len(value) > SURELY_FITS:
                self._check_size(output, key, value, plan.codec, in_json)
            headers = [*lineage, (PLACE, self._next_place())] if output.timed else lineage
            self.effects.emit(plan.stream, key, value, headers + dated if dated else headers)

    def emit_encoded(self, plan: OutputPlan, value: bytes) -> bool:
        """Emits a record that has the step's key. False: only `emit` does all that it takes."""
        key = self.item[KEY]
        if plan.output.topic in self.in_json or len(key) + len(value) > SURELY_FITS:
            return False
        self.effects.emit(plan.stream, key, value, self._lineage_headers())
        return True

    def _record_time(self, plan: OutputPlan, record: object) -> list[Header]:
        """The header that tells the sink which Kafka timestamp the record gets, if the output declares one."""
        if plan.record_time is None:
            return []
        try:
            time_ms = checked_time(plan.record_time(record))
        except Malformed as e:
            raise StepError(f"{plan.output!r}: {plan.output.record_time}: {e}.", "give each record a time.") from None
        return [(RECORD_TIME, time_bytes(time_ms))]

    def _check_size(self, output: Output[Any], key: bytes, value: bytes, codec: Codec, in_json: bool) -> None:
        """A topic takes no larger record, so the sink could not write it."""
        most = largest_message(self.largest, in_json) - HEADERS
        size = len(key) + (len(codec.transcode(value, HEADER_BYTES)) if in_json else len(value))
        if size > most:
            raise StepError(
                f"{output!r}: expected a record of at most {most:,} bytes with its key, found one of {size:,}.",
                "emit smaller records, or declare the size with service.holding(n).",
            )

    def _next_place(self) -> bytes:
        """The place of the next record: always behind the earlier records of the same key.

        A timer may set another timer for its own time. The new timer runs later but may come first in the total order.
        Then the place continues from the last one instead of following the item.
        """
        item = self.item
        if not self.cause:
            self.cause = cause_of(item)
        cause, number = self.cause, 0
        owner = item[KEY]
        last = self.last_places.get(owner)
        if last is not None and last[0] >= cause:
            cause, number = last[0], last[1] + 1
        self.last_places[owner] = (cause, number)
        return place_of(cause, number)

    def remove(self, output: Output[Any], key: tuple[Any, ...]) -> None:
        plan = self._output(output)
        if not output.compacted:
            raise StepError(
                f"{output!r}: expected a compacted output for remove, found one that keeps all records of a key.",
                "declare it with compacted=True.",
            )
        try:
            removed = key_bytes(key_text(key))
        except Malformed as e:
            raise StepError(f"{output!r}: {e}.", "pass the key as the records have it, part by part.") from None
        self.effects.emit(plan.stream, removed, None, self._lineage_headers())

    def _output(self, output: Any) -> OutputPlan:
        plan = self.plan.outputs.get(output)
        if plan is None:
            if not isinstance(output, Output):
                raise StepError(f"expected an output, found {output!r}.", "pass an object that output() returned.")
            raise StepError(
                f"expected an output of the service {self.plan.name!r}, found {output!r} of {output.service!r}.",
                "use an output of this service.",
            )
        return plan

    def _lineage_headers(self) -> list[Header]:
        if not self.lineage:
            self.lineage = [self._lineage_header()]
        return self.lineage

    def _lineage_header(self) -> Header:
        item = self.item
        partition, offset = where(item)
        place = (item[TOPIC], item[PARTITION], partition)
        begin = self.lineage_of.get(place)
        if begin is None:
            topic = topic_of(item, self.plan.topics)
            begin = self.plan.lineage + string_bytes(topic.encode()) + long_bytes(partition)
            self.lineage_of[place] = begin
        time_ms = item[TIME] if self.timer is None else item[SET_AT]
        timer = b"\x00" if self.timer is None else b"\x02" + string_bytes(self.timer.name.encode())
        return LINEAGE, begin + long_bytes(offset) + long_bytes(time_ms) + timer
