"""What the benchmark of services takes of a service: `LOAD` in `tests/services/NAME/load.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Record(NamedTuple):
    topic: str
    key: str
    value: bytes


class Load(NamedTuple):
    """The load of one service."""

    tables: str  # the configuration file
    inputs: Sequence[str]
    output: str  # a topic that the job writes throughout; its records give the rate
    records: Callable[[int], Iterator[Record]]  # makes so many records, in the order of writing
    partitions: Mapping[str, int] = {}  # of inputs that do not have as many as the others
    config: Mapping[str, str] = {}  # of the input topics
