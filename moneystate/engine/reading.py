"""Reads the event times of records before a batch reads the records themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moneystate.engine.deadletter import Letter
from moneystate.engine.failure import StepFailed, step_error
from moneystate.engine.items import END_OF_TIME
from moneystate.engine.processor import Convert, Decoder, InputTopic, Rejected
from moneystate.errors import MoneystateError, StepError


class EventTimes:
    """Reads the event times of records."""

    def __init__(
        self, decoder: Decoder, formats: Mapping[str, str], converts: Mapping[int, Convert],
        inputs: Sequence[InputTopic],
    ) -> None:  # fmt: skip
        self.decoder = decoder
        self.arrivals = {t.code for t in inputs if t.arrival}
        self.converts = converts  # as in `moneystate.engine.intake.Intake`
        self.reads = decoder.reads(formats, converts)

    def event_time(self, topic: int, record: Letter) -> int | None:
        """The event time in ms; None: the record does not count. Raises Rejected, and StepError if a function of the
        service fails."""
        try:
            event_time_ms = self._event_time(topic, record)
            return record.timestamp_ms if topic in self.arrivals and event_time_ms is not None else event_time_ms
        except Rejected:
            raise
        except Exception as e:
            if isinstance(e, MoneystateError) and not isinstance(e, StepError):
                raise
            rejected = self.decoder.rejected(e)
            if rejected is not None:
                raise rejected from None
            failed = StepFailed(topic, record.partition, record.offset, False, e)
            raise step_error(failed, {topic: record.topic}) from e

    def _event_time(self, topic: int, record: Letter) -> int | None:
        read = self.reads.get(topic)
        if read is not None:
            decoded = read(record)
            return None if decoded is None or decoded[1] == END_OF_TIME else decoded[1]
        if record.value is None:
            return None
        convert = self.converts.get(topic)
        return self.decoder.decode(topic, record.value if convert is None else convert(record.value))[1]
