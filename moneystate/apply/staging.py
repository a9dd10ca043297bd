"""Runs statements that go through temporary tables, within one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moneystate.apply.database import Tx
from moneystate.apply.sql import Staged
from moneystate.apply.values import copy_line


class Staging:
    """The temporary tables of a transaction. They are emptied at its end, and before a further use."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self._used: set[str] = set()

    def run(self, staged: Staged, lines: Iterable[Sequence[str | None]]) -> None:
        """Fills the temporary table with rows, and uses it."""
        self.tx.execute(staged.make)  # each time: a savepoint may have taken it back
        if staged.stage in self._used:
            self.tx.execute(f"DELETE FROM {staged.stage}")
        self._used.add(staged.stage)
        with self.tx.copy(staged.copy) as copy:
            copy.write("".join([copy_line(line) for line in lines]))
        self.tx.execute(staged.use)
