"""What Debezium writes, and what becomes of other records."""

from __future__ import annotations

import json
from typing import Any

import pytest

import moneystate as ms
from moneystate.engine.avro import Malformed
from services.changes.config import Config, Table
from services.changes.decode import ChangeDecoder, binlog_position, commit_of, end_decoder
from services.changes.records import Change, Ended
from tests.services.changes.driver import config

PLACEHOLDER = "__debezium_unavailable_value"
TABLE = Table("student", ("id",))


def event(op: str = "u", **members: Any) -> dict[str, Any]:
    source = {"table": "student", "ts_ms": 5, "txId": 790, "lsn": 31, "sequence": '["30","31"]', "snapshot": "false"}
    return {
        "before": None, "after": {"id": 1, "name": "Eve"}, "op": op, "source": source,
        "transaction": {"id": "790:31", "total_order": 2}, "ts_ms": 9, **members,
    }  # fmt: skip


def read(value: Any, table: Table = TABLE, given: Config | None = None, **headers: bytes) -> Change | None:
    message = ms.Message("uni.public.student", value=value if value is None else encoded(value), headers=headers)
    return ChangeDecoder(given or config(), table)(message)


def encoded(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def test_a_change_has_its_transaction_and_its_place() -> None:
    change = read(event())
    assert change is not None
    assert (change.transaction, change.order, change.lsn, change.commit) == ("790@5", 2, 31, 30)
    assert (change.key, change.written_by, change.committed_at) == ("[1]", "790", 5)


@pytest.mark.parametrize("value", [None, event("m")])
def test_tombstones_and_messages_are_no_changes(value: Any) -> None:
    assert read(value) is None


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("after", {"after": 7}),
        ("key", {"after": {"name": "Eve"}}),
        ("lsn", {"source": {**event()["source"], "lsn": "x"}}),
    ],
)
def test_a_row_that_cannot_be_read_still_counts_if_its_transaction_can(name: str, members: Any) -> None:
    if name == "lsn":
        with pytest.raises(Malformed):
            read(event(**members))
        return
    change = read(event(**members))
    assert change is not None
    assert name in change.problem
    assert (change.transaction, change.after) == ("790@5", None)


def test_json_that_readers_take_differently_still_counts() -> None:
    text = json.dumps(event()).replace('"name": "Eve"', '"name": "Eve", "name": "Eva"')
    change = read(text.encode())
    assert change is not None
    assert change.problem


@pytest.mark.parametrize("value", [b"{", b"7", b"[]", event("x"), event(source=None), event(transaction=None, after=7)])
def test_what_has_no_transaction_is_a_dead_letter(value: Any) -> None:
    with pytest.raises((Malformed, ms.Reject)):
        read(value)


@pytest.mark.parametrize("value", [PLACEHOLDER, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", [PLACEHOLDER]])
def test_columns_that_the_log_does_not_have_are_named(value: Any) -> None:
    change = read(event(after={"id": 1, "bio": value}))
    assert change is not None
    assert change.after == ms.Json('{"id":1}')
    assert change.unavailable == ms.Json('["bio"]')


def test_decimals_must_be_texts() -> None:
    decimals = Table("student", ("id",), decimals=("grade",))
    for grade in ("1.5", "-2", "1E+3", None, PLACEHOLDER):
        change = read(event(after={"id": 1, "grade": grade}), decimals)
        assert change is not None
        assert not change.problem
    change = read(event(after={"id": 1, "grade": "Dw=="}), decimals)
    assert change is not None
    assert "decimal.handling.mode=string" in change.problem
    precise = {"field": "grade", "name": "org.apache.kafka.connect.data.Decimal"}
    wrapped = {"schema": {"fields": [{"field": "after", "fields": [precise]}]}, "payload": event()}
    change = read(wrapped)
    assert change is not None
    assert "decimal.handling.mode=string" in change.problem


def test_a_changed_key_is_in_the_header_with_or_without_a_schema() -> None:
    for header in (b'{"id":7}', b'{"schema":{},"payload":{"id":7}}'):
        message = ms.Message("uni.public.student", value=encoded(event("c")), headers={"__debezium.oldkey": header})
        change = ChangeDecoder(config(), TABLE)(message)
        assert change is not None
        assert change.other_key == "[7]"


def test_mysql_has_binlog_positions_and_whole_ids() -> None:
    given = config(database="mysql", schema="uni")
    source = {"table": "student", "ts_ms": 5, "gtid": "u:23", "file": "binlog.000003", "pos": 154, "row": 1}
    change = read(event(source=source, transaction={"id": "u:23", "total_order": 9}), given=given)
    assert change is not None
    assert (change.transaction, change.written_by, change.order) == ("u:23", "u:23", 1)
    assert change.lsn == binlog_position("binlog.000003", 154) == (3 << 32) + 154
    value = {"status": "END", "id": "u:23", "ts_ms": 5, "data_collections": [
        {"data_collection": "uni.student", "event_count": 1}]}  # fmt: skip
    assert end_decoder(given)(ms.Message("uni.transaction", value=encoded(value))) == Ended(
        "uni", "u:23", 0, 5, {"uni.student": 1}
    )


def test_ends_are_read_from_one_partition() -> None:
    value = {"status": "END", "id": "790:40", "ts_ms": 5, "data_collections": None}
    decode = end_decoder(config())
    assert decode(ms.Message("uni.transaction", value=encoded(value))) == Ended("uni", "790@5", 40, 5, {})
    assert decode(ms.Message("uni.transaction", value=encoded({**value, "status": "BEGIN"}))) is None
    with pytest.raises(ms.Reject):
        decode(ms.Message("uni.transaction", partition=1, value=encoded(value)))
    with pytest.raises(Malformed):
        decode(ms.Message("uni.transaction", value=encoded({**value, "id": "790"})))


def test_the_commit_before_a_change() -> None:
    assert [commit_of(its) for its in ('["30","31"]', '[null,"31"]', None, "[]")] == [30, 0, 0, 0]
