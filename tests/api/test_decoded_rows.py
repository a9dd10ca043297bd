"""The rows of a copy that stay decoded: bounded, and never those of before a change."""

from __future__ import annotations

from moneystate.runtime.decoded_rows import FIELD_BYTES, ROW_BYTES, DecodedRows

EACH = ROW_BYTES + FIELD_BYTES + 2  # the estimate of a row of two bytes


class Reading:
    """Counts what is decoded. `rows`: the bytes by key, as a copy has them."""

    def __init__(self, fit: int) -> None:
        self.read = 0
        self.decoded = DecodedRows(self._decode, 1, fit * EACH)
        self.rows = {b"%d" % n: b"%02d" % n for n in range(10)}

    def _decode(self, content: bytes, start: int) -> str:
        self.read += 1
        return content[start:].decode()

    def get(self, n: int) -> int:
        key = b"%d" % n
        return int(self.decoded.get(key, self.rows[key], 0))


def test_a_row_is_decoded_once() -> None:
    reading = Reading(fit=10)
    for _ in range(2):
        assert [reading.get(n) for n in range(10)] == [*range(10)]
    assert reading.read == 10


def test_a_changed_row_is_decoded_again() -> None:
    reading = Reading(fit=10)
    assert reading.get(3) == 3
    reading.rows[b"3"] = b"0033"
    assert reading.get(3) == 33
    assert reading.get(3) == 33
    assert (reading.read, reading.decoded.bytes) == (2, EACH + 2)


def test_rows_read_in_turn_are_mostly_found_when_not_all_fit() -> None:
    reading = Reading(fit=8)
    for _ in range(10):
        assert [reading.get(n) for n in range(10)] == [*range(10)]
    assert reading.decoded.bytes <= 8 * EACH
    assert reading.read <= 50  # all would be 100


def test_other_rows_take_the_room_of_those_that_are_no_longer_read() -> None:
    reading = Reading(fit=2)
    for _ in range(5):
        reading.get(0), reading.get(1)
    for _ in range(5):
        reading.get(8), reading.get(9)
    before = reading.read
    reading.get(8), reading.get(9)
    assert reading.read == before
