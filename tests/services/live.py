"""What the live proof (`test_live.py`) needs of a service: a log to write, and what must come out of it.

Each service has a module `tests.services.NAME.live` with a `CASE`.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from tests.reference.model import LogRecord

BOUND_MS: Final = 5_000  # of the run


R = TypeVar("R")


class Written(NamedTuple):
    """A record as a producer writes it."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Read = Callable[[str], list[LogRecord]]  # a topic, as it stands in the log


@dataclass
class Expected:
    """After the whole log and a drain; of services that read what they cause, after what stands in the log. `outputs`:
    topic -> key -> values in order, None for a tombstone; `letters`: reasons of dead letters of all its services."""

    outputs: dict[str, dict[str, list[Any]]]
    letters: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Look:
    """A command, without the flags that say where: what it shows, made of what it printed, is what `wanted` makes of
    the topics as they stand then."""

    words: Sequence[str]
    shows: Callable[[str], Any]
    wanted: Callable[[Read], Any]


@dataclass(frozen=True)
class Case:
    """`name`: as `moneystate run` takes it; `services`: the services it stands for, in the order of their stages;
    `tables`: its part of the configuration file; `partitions`: of its input topics; `log`: in the order of writing, at
    least one record for each partition among its first two thirds; `parse`: an output's value, by topic; `beats`: of
    services that read what they cause, the heartbeats after a share of the log, by their number; `quiet_ms`: up to
    which time `moneystate heartbeat` stands for all producers after the first two thirds; `broker_time`: whether its
    input topics have the broker's timestamps; `old`: the output topics whose records are older than Kafka would keep
    them, so they are created here, with their partitions; `question`: to a server of
    the first service, then; `view`: at the end."""

    name: str
    services: tuple[str, ...]
    tables: str
    partitions: Mapping[str, int]
    log: Sequence[Written]
    expected: Callable[[Read], Expected]
    parse: Callable[[str, bytes], Any] = lambda _, value: json.loads(value)
    beats: Callable[[float, int], list[Written]] | None = None
    quiet_ms: int | None = None
    broker_time: bool = False
    old: Mapping[str, int] = field(default_factory=dict)
    question: Look | None = None
    view: Look | None = None


class Placed(NamedTuple):
    """`record`: None where junk is written."""

    partition: int
    offset: int
    record: Any
    value: bytes | None


def with_junk(
    records: Iterable[R], as_json: Callable[[R], bytes], junk: Sequence[bytes | None], partitions: int, seed: int
) -> Iterator[Placed]:
    """The records in partitions at random, and among them, 3 in 100, what no reader takes."""
    chance = random.Random(seed)
    ends = Counter[int]()
    junk_values = itertools.cycle(junk)
    for record in records:
        partition = chance.randrange(partitions)
        yield Placed(partition, ends[partition], record, as_json(record))
        ends[partition] += 1
        if chance.random() < 0.03:
            yield Placed(partition, ends[partition], None, next(junk_values))
            ends[partition] += 1
