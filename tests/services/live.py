"""What the live proof (`test_live.py`) needs of a service: a log to write, and what must come out of it.

Each service has a module `tests.services.NAME.live` with a `CASE`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

BOUND_MS: Final = 5_000  # of the run


class Written(NamedTuple):
    """A record as a producer writes it."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass
class Expected:
    """After the whole log and a drain. `outputs`: topic -> key -> values in order, None for a tombstone; `letters`:
    reasons of dead letters of all its services."""

    outputs: dict[str, dict[str, list[Any]]]
    letters: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Case:
    """`name`: as `moneystate run` takes it; `services`: the services it stands for, in the order of their stages;
    `tables`: its part of the configuration file; `partitions`: of its input topics; `log`: in the order of writing, at
    least one record for each partition among its first two thirds; `parse`: an output's value, by topic."""

    name: str
    services: tuple[str, ...]
    tables: str
    partitions: Mapping[str, int]
    log: Sequence[Written]
    expected: Callable[[], Expected]
    parse: Callable[[str, bytes], Any] = lambda _, value: json.loads(value)
