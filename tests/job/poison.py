"""`moneystate` with a logic that fails at some records: `main` takes LOGIC_VERSION POISON ARGUMENTS.

`POISON`: the money id, or empty, at which a step ends with an exception.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from moneystate.cli.main import main as moneystate
from moneystate.engine.effects import Effects
from moneystate.engine.items import Item, UnorderedRecord
from moneystate.engine.processor import Change, Processor
from moneystate.engine.state import StateAccess
from moneystate.runtime import job as runtime_job
from moneystate.runtime.job import Parts


@dataclass(frozen=True)
class PoisonedParts(Parts):
    """The service, but for one record."""

    poison: bytes = b""

    def processor(self) -> Any:
        return Poisoned(self.poison, super().processor())


class Poisoned:
    def __init__(self, poison: bytes, processor: Processor[Any]) -> None:
        self.poison = poison
        self.processor = processor

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Any]:
        return self.processor.begin(state, items, unordered, watermark_before)

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        self.processor.process_unordered(record, effects)

    def step(self, item: Item, parsed: Any, effects: Effects) -> None:
        if self.poison and self.poison in item[8]:
            raise ZeroDivisionError("poison\nin two lines")
        self.processor.step(item, parsed, effects)

    def finish(self, effects: Effects) -> list[Change]:
        return self.processor.finish(effects)

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]]) -> list[Change]:
        return self.processor.rewrite(entries)


def main() -> None:
    """`tests.job.warm` runs it, in a process that does nothing else."""
    logic, poison = int(sys.argv.pop(1)), sys.argv.pop(1)
    with poisoned(logic, poison):
        moneystate()


@contextmanager
def poisoned(logic: int, poison: str) -> Iterator[None]:
    """Replaces the logic in this process."""
    other = {"LOGIC_VERSION": logic, "Parts": partial(PoisonedParts, poison=poison.encode())}
    with patch.dict(vars(runtime_job), other):
        yield
