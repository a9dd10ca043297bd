"""What the benchmark of services takes of a service: `LOAD` in `tests/services/NAME/load.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Record(NamedTuple):
    topic: str
    key: str
    value: bytes


class Load(NamedTuple):
    """`tables`: the configuration file; `output`: a topic that the job writes to throughout, by which the rate is
    measured; `records`: so many, in the order of writing."""

    tables: str
    inputs: Sequence[str]
    output: str
    records: Callable[[int], Iterator[Record]]
