"""Reads ranges of many partitions in a process of its own and says how much memory that took.

`python -m tests.kafka.fetch_ahead BOOTSTRAP_SERVERS TOPIC FIRST LAST PARTITIONS`: of partition 0 all records are read
at once, of the others first one and then the rest; FIRST and LAST are how many there are of partition 0 and of each
other one. Prints JSON: how many records each read gave, and by how many bytes the process grew at most.
"""

from __future__ import annotations

import json
import resource
import sys

from moneystate.kafka.ranges import Range, RangeReader


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    servers, topic, *numbers = sys.argv[1:]
    dense, sparse, partitions = map(int, numbers)
    reader = RangeReader(servers, {}, "fetch-ahead", partitions)
    reader.consumer.list_topics(topic, timeout=30)
    before = peak_bytes()
    first = [Range(topic, 0, 0, dense), *(Range(topic, p, 0, 1) for p in range(1, partitions))]
    rest = [Range(topic, p, 1, sparse) for p in range(1, partitions)]
    counts = []
    for ranges in (first, rest):
        seen: set[tuple[int, int]] = set()
        n = 0
        for message in reader.read(ranges):
            seen.add((message.partition(), message.offset()))
            n += 1
        assert len(seen) == n
        counts.append(n)
    print(json.dumps({"records": counts, "grown": peak_bytes() - before}))


if __name__ == "__main__":
    main()
