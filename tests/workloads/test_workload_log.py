"""The workload in memory is a pure function of its flags, and what the reference model makes of it adds up."""

from __future__ import annotations

from hashlib import sha256

from tests.reference.model import Rules, run
from tests.workloads.workload_log import workload_log

FLAGS = ("--events", "2000", "--users", "50", "--seed", "7", "--partitions", "2", "--flush-marker")
ODDITIES = ("--garbage", "0.01", "--odd", "0.02", "--future", "0.01", "--repeat-sessions", "0.2", "--late", "0.02")
# The digest of the values in the order of sending: it changes only where the generator does.
DIGEST = "635bb9fdd6abeff19e45280a27aa94307d44913c61742331ec09c5e3f18371fb"


def test_the_same_flags_give_the_same_bytes() -> None:
    records, partitions = workload_log(*FLAGS, *ODDITIES)
    assert workload_log(*FLAGS, *ODDITIES) == (records, partitions)
    assert sha256(repr([record.value for record in records]).encode()).hexdigest() == DIGEST


def test_a_flushed_workload_is_released_as_a_whole() -> None:
    records, partitions = workload_log(*FLAGS, *ODDITIES)
    result = run(records, partitions, Rules(lookup=False))
    assert (len(result.enriched), result.buffered, result.waiting, result.looking_up) == (2000, 0, 0, 0)
    assert set(result.dead_letter_counts) == {
        "null_value",
        "unknown_schema",
        "trailing_bytes",
        "wrong_topic",
        "too_far_ahead",
    }
