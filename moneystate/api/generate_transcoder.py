"""Generates the source code that makes a record's JSON text from its Avro body, without the record in between.

def read_1(buf, pos): ...    -> the text and the position after the body; what the reader of records raises, too
"""

from __future__ import annotations

from collections.abc import Callable

from moneystate.api import avro_parts
from moneystate.api.generate import AvroCode
from moneystate.api.generate_json import JsonTexts
from moneystate.api.shapes import Record

Transcode = Callable[[bytes, int], tuple[str, int]]


class Transcoder(AvroCode):
    """For canonical values that this program wrote."""

    def __init__(self, top: Record) -> None:
        super().__init__()
        self.top = top
        self.texts = JsonTexts(self.source, lambda nested, value: value)  # a record within is a text already
        self.source.names["read_json"] = avro_parts.read_text
        self.number = self.record(top)

    def function(self) -> Transcode:
        made: Transcode = self.source.run(f"{self.top.name}, Avro to JSON")[f"read_{self.number}"]
        return made

    def functions_of(self, record: Record, number: int) -> None:
        self.reader(record, number)

    def construct(self, record: Record, number: int, names: list[str]) -> None:
        self.source.line(1, f"r = {self.texts.of_record(record, names, record is self.top)}")
