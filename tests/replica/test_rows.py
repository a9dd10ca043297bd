"""The rows to the byte: golden bytes, and that keys sort as what they stand for."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rocksdict import WriteBatch

from moneystate.replica import rows
from moneystate.replica.files import FORMAT
from moneystate.replica.record import read_record
from tests.replica.states import State, changes, entries
from tests.replica.test_store_model import Replica

GOLDEN = Path(__file__).parent.parent / "golden" / "replica"
EARLIER = GOLDEN / "v3.hex"
BEFORE = State(country="ES", sessions=(("s-1", 99),), seen=(("m-1", 3),))
AFTER = State(country="FR", sessions=(("s-1", 99),))

texts = st.binary(max_size=6)


def test_the_rows_are_the_golden_ones() -> None:
    replica = Replica()
    replica.apply(changes({}, entries(b"a\x00b", BEFORE)))
    replica.apply(changes(entries(b"a\x00b", BEFORE), entries(b"a\x00b", AFTER)))
    there = [f"{key.hex()} {value.hex()}" for key, value in replica.store.db.items(b"\x00", b"\xff")]
    replica.close()
    assert there == (GOLDEN / f"v{FORMAT}.hex").read_text().split("\n")[:-1]


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
    assert [rows.read_signed(key) for key in sorted(map(rows.signed, numbers))] == sorted(numbers)


@given(st.binary(min_size=1, max_size=3).filter(lambda b: b.strip(b"\xff")), texts)
def test_all_keys_with_a_prefix_are_before_its_end(prefix: bytes, more: bytes) -> None:
    assert prefix <= prefix + more < rows.after(prefix)
