"""Idempotency keys: their records, and how long they count."""

from __future__ import annotations

import pytest

from moneystate.errors import JobError
from moneystate.ingest.answers import Answer
from moneystate.ingest.keys import ENTRY_BYTES, Kept, Keys, decode, encode, partition_of, request_key
from moneystate.ingest.refusals import Refused

HOUR = 3_600_000
ANSWER = Answer(202, b'{"partition":1,"offset":7}')


def test_the_bytes_of_a_key() -> None:
    """Processes of two versions share a topic, so these never change."""
    key = request_key("device-7", "abc", "readings", "json False", b"{}")
    assert key.digest.hex() == "6aa97f0d9b38aec2f2105e8a6b27f2b7"
    assert partition_of(key.digest, 4) == 2
    value = encode(key, ANSWER)
    assert value == (
        b'{"body":"c9945eacab051194dc0cd16811f70eb0","status":202,"answer":"{\\"partition\\":1,\\"offset\\":7}"}'
    )
    assert decode("keys", value, 5) == Kept(key.body, ANSWER, 5)


def test_callers_topics_and_bodies_are_told_apart() -> None:
    key = request_key("a", "k", "t", "json False", b"{}")
    assert request_key("b", "k", "t", "json False", b"{}").digest != key.digest
    assert request_key("a", "k2", "t", "json False", b"{}").digest != key.digest
    for other in (("t2", "json False", b"{}"), ("t", "lines False", b"{}"), ("t", "json False", b"[]")):
        assert request_key("a", "k", *other).digest == key.digest
        assert request_key("a", "k", *other).body != key.body
    assert request_key("ab", "c", "t", "", b"").digest != request_key("a", "bc", "t", "", b"").digest


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_keys_that_are_empty_or_too_long(key: str) -> None:
    with pytest.raises(Refused) as refused:
        request_key("a", key, "t", "", b"")
    assert refused.value.status == 400


def test_a_key_counts_for_as_long_as_it_is_kept() -> None:
    keys = Keys(HOUR)
    key = request_key("a", "k", "t", "", b"{}")
    assert keys.find(key, 0) is None
    keys.add(key.digest, Kept(key.body, ANSWER, 1_000))
    assert keys.find(key, 1_000) == ANSWER
    assert keys.find(key, 1_000 + HOUR - 1) == ANSWER
    assert keys.bytes == ENTRY_BYTES + len(ANSWER.body)
    assert keys.find(key, 1_000 + HOUR) is None
    assert (len(keys), keys.bytes) == (0, 0)


def test_a_key_with_another_body_is_refused() -> None:
    keys = Keys(HOUR)
    key = request_key("a", "k", "t", "", b"{}")
    keys.add(key.digest, Kept(key.body, ANSWER, 0))
    with pytest.raises(Refused) as refused:
        keys.find(request_key("a", "k", "t", "", b"[]"), 0)
    assert (refused.value.code, refused.value.status) == ("KEY_USED", 422)


def test_clocks_that_differ_let_no_key_count_longer() -> None:
    """The records of two processes with different clocks are not in the order of their times."""
    keys = Keys(HOUR)
    ahead, behind = (request_key("a", name, "t", "", b"") for name in "xy")
    keys.add(ahead.digest, Kept(ahead.body, ANSWER, 5_000))
    keys.add(behind.digest, Kept(behind.body, ANSWER, 1_000))
    assert keys.find(behind, HOUR + 1_000) is None
    assert keys.find(ahead, HOUR + 1_000) == ANSWER
    keys.find(ahead, HOUR + 5_000)
    assert len(keys) == 0


@pytest.mark.parametrize("value", [b"", b"null", b"[]", b"{}", b'{"body":"zz","status":202,"answer":""}', b"\xff"])
def test_records_of_other_programs_are_an_error(value: bytes) -> None:
    with pytest.raises(JobError, match="keys: expected the records of idempotency keys"):
        decode("keys", value, 0)
