"""Generates code that turns a record's Avro body into JSON text without creating the record.

def read_1(buf, pos): ...    returns the text and the position after the body; raises the errors of `generate`'s reader
"""

from __future__ import annotations

from collections.abc import Callable

from moneystate.api import avro_parts
from moneystate.api.generate import AvroCode
from moneystate.api.generate_json import JsonTexts
from moneystate.api.shapes import Record

Transcode = Callable[[bytes, int], tuple[str, int]]


class Transcoder(AvroCode):
    """The generated code for a record that this program wrote: its JSON fields are canonical."""

    def __init__(self, top: Record) -> None:
        super().__init__()
        self.top = top
        # the reader of a nested record has already returned its text
        self.texts = JsonTexts(self.source, lambda nested, value: value)
        self.source.names["read_json"] = avro_parts.read_text
        self.number = self.record(top)

    def function(self) -> Transcode:
        transcode: Transcode = self.source.run(f"{self.top.name}, Avro to JSON")[f"read_{self.number}"]
        return transcode

    def functions_of(self, record: Record, number: int) -> None:
        self.reader(record, number)

    def construct(self, record: Record, number: int, names: list[str]) -> None:
        self.source.line(1, f"r = {self.texts.record_expression(record, names, record is self.top)}")
