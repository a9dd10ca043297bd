"""From records to the changes of a transaction: keys, merging, and what a record may not change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.apply.chunks import cut
from moneystate.apply.column_types import Column, ColumnType
from moneystate.apply.config import Mode
from moneystate.apply.decoding import decoder
from moneystate.apply.records import Record, Refused, read
from moneystate.apply.row_changes import Changes, RowDelete, RowPlan, RowPut, merged

TEXT, INT = ColumnType("text"), ColumnType("int8")
COLUMNS = [Column("id", TEXT, nullable=False), Column("n", INT, nullable=False), Column("size", TEXT)]
PATHS = {"id": "id", "n": "n", "size": "box.size"}


def plan(key: tuple[str, ...] = ("id",), value_format: str = "json", mode: Mode = Mode.upsert) -> RowPlan:
    return RowPlan(COLUMNS, PATHS, key, mode, decoder("t", value_format, "", "", "", ""), remove_nul=False)


def record(key: bytes | None, value: Any, offset: int = 0) -> Record:
    return Record("t", 0, offset, key, value if value is None else json.dumps(value).encode())


def test_a_record_becomes_the_texts_of_its_columns() -> None:
    value = {"id": "a", "n": 7, "box": {"size": "xl"}, "more": 1}
    assert plan().change(record(b"a", value)) == RowPut(("a",), ["a", "7", "xl"])
    assert plan().change(record(b"a", {"id": "a", "n": 7})) == RowPut(("a",), ["a", "7", None])


def test_a_tombstone_deletes_the_row_of_its_key() -> None:
    assert plan().change(record(b"a", None)) == RowDelete(("a",))
    assert plan(("id", "n")).change(record(b'["a", "7"]', None)) == RowDelete(("a", "7"))
    assert plan((), mode=Mode.append).change(record(b"a", None)) is None


@pytest.mark.parametrize("key", [b"a", b'["a","7"]', b'["a", 7]', b'{"id":"a","n":7}'])
def test_the_kafka_key_is_the_text_of_its_part_or_an_array_or_an_object_of_its_parts(key: bytes) -> None:
    parts = ("id",) if key == b"a" else ("id", "n")
    assert isinstance(plan(parts).change(record(key, {"id": "a", "n": 7})), RowPut)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"b", {"id": "a", "n": 7}, "key"),
        (None, {"id": "a", "n": 7}, "key"),
        (b"\xff", {"id": "a", "n": 7}, "key"),
        (b"a", {"id": "a"}, "null"),
        (b"a", {"id": "a", "n": 2**63}, "value"),
        (b"a", [], "malformed"),
        (None, None, "key"),
    ],
)
def test_a_record_that_cannot_be_a_row_is_refused(key: bytes | None, value: Any, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        plan().change(record(key, value))
    assert refused.value.reason == reason


def test_heartbeats_marks_and_other_types_have_no_effect() -> None:
    beat = {"type": "Heartbeat", "processedAt": "2026-01-01T00:00:00Z"}
    typed = RowPlan(COLUMNS, PATHS, ("id",), Mode.upsert, decoder("t", "json", "Order", "", "", ""), False)
    assert typed.change(record(None, beat)) is None
    assert typed.change(record(b"a", {"type": "Other", "id": 1})) is None
    assert typed.change(Record("t", 0, 0, None, b"anything", -1, [("mark", b"1")])) is None


def test_a_bad_record_is_refused_also_if_a_later_one_replaces_it() -> None:
    records = [record(b"a", {"id": "a", "n": "x"}), record(b"a", {"id": "a", "n": 1})]
    assert [r.refused is not None for r in read(records, plan().change)] == [True, False]


def changed(event: Mapping[str, Any], key: Any) -> Any:
    return plan(value_format="debezium").change(record(json.dumps(key).encode(), event))


def test_a_change_event_puts_its_row_or_deletes_it() -> None:
    row = {"id": "a", "n": 7}
    assert changed({"op": "u", "before": None, "after": row}, {"id": "a"}) == RowPut(("a",), ["a", "7", None])
    assert changed({"op": "d", "before": row, "after": None}, {"id": "a"}) == RowDelete(("a",))
    assert changed({"ts_ms": 1}, {}) is None
    with pytest.raises(Refused, match="truncated"):
        changed({"op": "t", "before": None, "after": None}, {})


def test_a_column_that_the_database_did_not_log_keeps_what_it_has() -> None:
    unlogged = {"id": "a", "n": 7, "box": "__debezium_unavailable_value"}
    columns = [COLUMNS[0], Column("box", TEXT)]
    boxed = RowPlan(
        columns, {"id": "id", "box": "box"}, ("id",), Mode.upsert, decoder("t", "debezium", "", "", "", ""), False
    )
    put = boxed.change(record(b'{"id":"a"}', {"op": "u", "after": unlogged}))
    assert isinstance(put, RowPut)
    assert put.unchanged == (1,)
    assert merged([RowPut(("a",), ["a", "xl"]), put]).puts == [RowPut(("a",), ["a", "xl"])]
    assert merged([RowDelete(("a",)), put]).puts == [put]


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 9))), max_size=20)


def run(table: dict[str, str], changes: Changes) -> None:
    for (key,) in changes.deletes:
        table.pop(key, None)
    for put in changes.puts:
        table[put.key[0]] = str(put.texts[1])


@given(STEPS, st.integers(1, 7))
def test_merged_changes_have_the_effect_of_all_however_they_are_cut(
    steps: list[tuple[str, int | None]], most: int
) -> None:
    values = [(key, None if n is None else {"id": key, "n": n}) for key, n in steps]
    records = [record(key.encode(), value, offset) for offset, (key, value) in enumerate(values)]
    table: dict[str, str] = {}
    for group in cut(records, most):
        run(table, merged([r.content for r in read(group, plan().change)]))
    assert table == {key: str(n) for key, n in dict(steps).items() if n is not None}
