"""The keys of rows sort as what they stand for, and rows of an earlier format are not read.

`test_service_model` has the golden bytes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rocksdict import WriteBatch

from moneystate.replica import rows
from moneystate.replica.record import read_record
from tests.replica.test_store_model import Replica

GOLDEN = Path(__file__).parent.parent / "golden" / "replica"
EARLIER = GOLDEN / "service-v4.hex"

texts = st.binary(max_size=6)


def test_files_of_an_earlier_format_are_taken_for_none() -> None:
    """They are then built again from the log."""
    replica = Replica()
    batch = WriteBatch(raw_mode=True)
    for line in EARLIER.read_text().splitlines():
        key, value = map(bytes.fromhex, line.split(" "))
        batch.put(key, value)
    replica.store.db.write(batch)
    assert read_record(replica.store.db) is None
    replica.close()


@given(st.lists(st.tuples(texts, texts)))
def test_escaped_texts_sort_as_they_are_and_come_back(pairs: list[tuple[bytes, bytes]]) -> None:
    keys = sorted(rows.escape(first) + second for first, second in pairs)
    back = [(rows.unescape(key, 0)[0], key[rows.unescape(key, 0)[1] :]) for key in keys]
    assert back == sorted(pairs)


@given(st.lists(st.integers(-(1 << 62), 1 << 62)))
def test_numbers_sort_as_their_bytes(numbers: list[int]) -> None:
    assert sorted(numbers, key=rows.signed) == sorted(numbers)


@given(st.binary(min_size=1, max_size=3).filter(lambda b: b.strip(b"\xff")), texts)
def test_all_keys_with_a_prefix_are_before_its_end(prefix: bytes, more: bytes) -> None:
    assert prefix <= prefix + more < rows.after(prefix)
