"""Records as protobuf messages. Personal fields are blanked here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moneystate.errors import StepError
from moneystate.records.codec import Codec
from moneystate.records.json_text import quote
from moneystate.replica.model import Difference, Item, Unreadable
from moneystate.runtime import personal
from moneystate.runtime.plan import Plan
from moneystate.runtime.query_plan import VALUE, QueryPlan
from moneystate.serving.failures import malformed
from moneystate.state.v1 import state_pb2 as s


def shown(name: bytes) -> str:
    """A key or id as text. A job writes UTF-8; other bytes must not end a listing."""
    return name.decode(errors="replace")


class RecordMessages:
    """The messages for one caller. `personal`: the caller may read personal fields."""

    def __init__(
        self, plan: Plan, may_read_personal: bool, encoding: Any, note_unreadable: Callable[[], None] = lambda: None
    ) -> None:
        """`note_unreadable`: called for each record that is answered without its content."""
        if encoding not in s.Encoding.values():
            raise malformed("encoding", f"expected an Encoding, found {encoding}")
        self.plan = plan
        self.personal = may_read_personal
        self.is_avro = encoding == s.ENCODING_AVRO
        self.note_unreadable = note_unreadable

    def item(self, item: Item) -> s.Record:
        name = {"state": item.state, "key": shown(item.owner), "id": shown(item.id)}
        message = s.Record(name=name)
        if isinstance(item.record, Unreadable):
            return self._unreadable(message, item.record.problem)
        if item.record is not None:
            try:
                self._fill(message, self.plan.kinds[item.state].codec, item.record)
            except StepError:  # its text may have the value
                return self._unreadable(message, f"{'Avro' if self.is_avro else 'JSON'} cannot represent a value of it")
        return message

    def _unreadable(self, message: s.Record, problem: str) -> s.Record:
        message.unreadable = problem
        self.note_unreadable()
        return message

    def change(self, difference: Difference) -> s.Change:
        return s.Change(before=self.item(difference.before), after=self.item(difference.after))

    def result(self, query: QueryPlan, value: Any) -> s.Record:
        message = s.Record()
        self._fill(message, query.result, query.result_of(value))
        if not self.is_avro:
            head = f'{{"type":{quote(query.result.record.short)},{quote(VALUE)}:'
            message.json = message.json[len(head) : -1]
        return message

    def _fill(self, message: s.Record, codec: Codec, record: Any) -> None:
        hidden = () if self.personal else codec.personal
        shown = personal.blanked(codec.record, record) if hidden else record
        if self.is_avro:
            message.avro = codec.encode(shown)
        else:
            message.json = codec.to_json(shown).decode()
        message.masked.extend(hidden)
