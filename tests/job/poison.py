"""`moneystate` with a logic that fails at some records: `main` takes LOGIC_VERSION POISON ARGUMENTS.

`POISON`: the money id, or empty, at which a step ends with an exception.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import services.enrichment.job
from moneystate.cli.main import main as moneystate
from moneystate.engine.effects import Effects
from moneystate.engine.items import Item, UnorderedRecord
from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess
from services.enrichment.rules import Rules
from services.enrichment.step import Enrichment


class Poisoned:
    """The enrichment, but for one record."""

    def __init__(self, poison: bytes, rules: Rules) -> None:
        self.poison = poison
        self.enrichment = Enrichment(rules)

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Any]:
        return self.enrichment.begin(state, items, unordered, watermark_before)

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        self.enrichment.process_unordered(record, effects)

    def step(self, item: Item, parsed: Any, effects: Effects) -> None:
        if self.poison and self.poison in item[8]:
            raise ZeroDivisionError("poison\nin two lines")
        self.enrichment.step(item, parsed, effects)

    def finish(self, effects: Effects) -> list[Change]:
        return self.enrichment.finish(effects)

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]], version: int) -> list[Change]:
        return self.enrichment.rewrite(entries, version)


def main() -> None:
    """`tests.job.warm` runs it, in a process that does nothing else."""
    logic, poison = int(sys.argv.pop(1)), sys.argv.pop(1)
    with poisoned(logic, poison):
        moneystate()


@contextmanager
def poisoned(logic: int, poison: str) -> Iterator[None]:
    """Replaces the logic in this process."""
    other = {"LOGIC_VERSION": logic, "Enrichment": partial(Poisoned, poison.encode())}
    with patch.dict(vars(services.enrichment.job), other):
        yield
