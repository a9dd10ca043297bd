"""What only the log in memory can be told to do."""

from __future__ import annotations

from confluent_kafka import Consumer

from moneystate.job.local.memory_clients import MemoryConsumer, memory_log
from moneystate.job.local.memory_log import MemoryLog, PartitionLog, State, Transaction
from moneystate.kafka.client import new_client


def test_compaction_leaves_the_last_committed_record_of_each_key() -> None:
    log = MemoryLog()
    log.create("states")
    part = log.partition("states", 0)
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)):
        part.append(key, value, (), 0)
    aborted, still_open = Transaction(), Transaction()
    aborted.state = State.ABORTED
    part.append(b"a", b"aborted", (), 0, aborted)
    still_open.first["states", 0] = part.open[still_open] = part.append(b"a", b"3", (), 0, still_open)
    log.compact("states")
    assert offsets(part, committed=True) == [(2, b"2"), (3, None)]
    assert offsets(part, committed=False) == [(2, b"2"), (3, None), (5, b"3")]
    assert (part.start, part.end, part.stable_end()) == (0, 6, 5)


def offsets(part: PartitionLog, committed: bool) -> list[tuple[int, bytes | None]]:
    records, _ = part.read(0, 100, committed)
    return [(record.offset, record.value) for record in records]


def test_a_read_ends_after_as_many_records_as_wanted_and_goes_on_there() -> None:
    part = PartitionLog()
    for number in range(5):
        part.append(None, b"%d" % number, (), 0)
    records, position = part.read(1, 2, committed=True)
    assert ([record.offset for record in records], position) == ([1, 2], 3)
    records, position = part.read(position, 10, committed=True)
    assert ([record.offset for record in records], position) == ([3, 4], 5)


def test_its_address_is_valid_as_long_as_the_log() -> None:
    with memory_log() as (_, address), memory_log() as (_, other):
        assert address != other
        settings = {"bootstrap.servers": address, "group.id": "readers"}
        inside: object = new_client(Consumer, settings)
        assert isinstance(inside, MemoryConsumer)
    outside: object = new_client(Consumer, {**settings, "log_level": 0})
    assert not isinstance(outside, MemoryConsumer)
