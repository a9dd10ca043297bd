"""TableLoaded, as a loader writes it and others read it."""

from __future__ import annotations

from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded

LOADED = TableLoaded(rows=3, changed=2, deleted=1, source="prices.csv", loaded_at=1_000)


def test_the_end_of_a_load_is_one_object_in_json() -> None:
    codec = Codec(TABLE_LOADED_RECORD)
    text = (
        b'{"type":"TableLoaded","rows":3,"changed":2,"deleted":1,"source":"prices.csv",'
        b'"loadedAt":"1970-01-01T00:00:01.000Z"}'
    )
    assert codec.to_json(LOADED) == text
    assert codec.from_json_text(text.decode()) == LOADED
    assert codec.decode(codec.encode(LOADED)) == LOADED
    assert TABLE_LOADED_RECORD.name == "moneystate.events.TableLoaded"
