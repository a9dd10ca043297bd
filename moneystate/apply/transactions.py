"""The transaction that has both: the rows and the position (rule 1 in docs/apply.md).

The steps, and what a crash after each leaves:

1. *begun*: nothing; the server ends the transaction within 5 s, also if this process only stands still.
2. *locked*: the positions are locked, in order, and compared with where this instance left off. As 1.
3. *applied*: the rows of the target. As 1.
4. *numbered*: notifications and dead letters are in the outbox. As 1.
5. *moved*: the positions. As 1.
6. *committed*: all of it is visible. If the answer is lost, the next attempt finds the positions at the chunk's end.

If the data of a record fail, the chunk is cut: first by partition, then each record has a savepoint, and only bad ones
become dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from moneystate.api.reject import Reject
from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.chunks import Decision, Part, Partition, decide, split
from moneystate.apply.config import ONE_BY_ONE, OnError
from moneystate.apply.database import Connected, Tx, begin, judge, rolled_back, said
from moneystate.apply.outbox import Stream
from moneystate.apply.records import Read, Refused
from moneystate.apply.sqlstates import Verdict
from moneystate.apply.staging import Staging
from moneystate.apply.targets import Applied, Committed, Effects
from moneystate.errors import MoneystateError, StepError
from moneystate.kafka.failpoints import failpoint

FAILPOINTS: Final = ("begun", "locked", "applied", "numbered", "moved", "committed")


@dataclass
class Outcome:
    """Holds what became of a chunk."""

    ends: dict[Partition, int] = field(default_factory=dict)  # partitions that went on, and where they are now
    moved: dict[Partition, int] = field(default_factory=dict)  # partitions that someone else moved
    locked: list[Partition] = field(default_factory=list)  # partitions that are tried again
    stopped: dict[Partition, str] = field(default_factory=dict)  # partitions that cannot go on, and why
    records: int = 0
    letters: int = 0
    outgoing: int = 0

    def add(self, other: Outcome) -> None:
        self.ends |= other.ends
        self.moved |= other.moved
        self.locked += other.locked
        self.stopped |= other.stopped
        self.records += other.records
        self.letters += other.letters
        self.outgoing += other.outgoing


class Transactions:
    """Applies chunks of one target on one connection at a time."""

    def __init__(
        self, target: Applied, books: Bookkeeping, dead_letters: str, stream: Callable[[Partition], Stream],
        on_error: OnError,
    ) -> None:  # fmt: skip
        self._target = target
        self._books = books
        self._dead_letters = dead_letters
        self._stream = stream
        self._on_error = on_error

    def apply(self, connection: Connected, parts: Sequence[Part]) -> Outcome:
        """Raises psycopg.Error for what is to be tried again with a new connection, and MoneystateError."""
        try:
            return self._commit(connection, parts, self._whole)
        except Exception as e:
            if not self._is_of_records(e):
                raise
            self._end(connection, e)
        outcome = Outcome()
        for part in parts:
            outcome.add(self._part(connection, part, try_whole=len(parts) > 1))
        return outcome

    def _part(self, connection: Connected, part: Part, try_whole: bool) -> Outcome:
        if try_whole:
            try:
                return self._commit(connection, [part], self._whole)
            except Exception as e:
                if not self._is_of_records(e):
                    raise
                self._end(connection, e)
        outcome = Outcome()
        for few in split(part, ONE_BY_ONE):
            outcome.add(self._commit(connection, [few], self._one_by_one))
            if outcome.ends.get(part.partition) != few.end:
                break  # stopped, moved or locked
        return outcome

    def _is_of_records(self, error: Exception) -> bool:
        """Whether the records may be at fault, and not the server or the network."""
        if isinstance(error, psycopg.Error):
            return judge(error) in (Verdict.data, Verdict.stop)
        return isinstance(error, StepError) or not isinstance(error, MoneystateError | Committed)

    def _end(self, connection: Connected, error: Exception) -> None:
        if not rolled_back(connection):
            raise psycopg.OperationalError("the connection is gone") from error

    def _commit(
        self, connection: Connected, parts: Sequence[Part], work: Callable[[Tx, Sequence[Part], Effects], Outcome]
    ) -> Outcome:
        target, books = self._target, self._books
        begin(connection, target.isolation)
        failpoint("begun", 0)
        try:
            with connection.cursor() as tx:
                positions, begun = books.lock(tx, target.name, [part.partition for part in parts])
                failpoint("locked", 0)
                decision = decide(parts, positions)
                outcome = self._work(tx, decision, begun, work)
                tx.execute("COMMIT")
                if connection.info.transaction_status is not TransactionStatus.IDLE:
                    raise psycopg.OperationalError("the transaction did not end")
        except (psycopg.Error, MoneystateError):
            rolled_back(connection)
            raise
        failpoint("committed", 0)
        outcome.ends |= {part.partition: part.end for part in decision.done}
        outcome.moved |= decision.moved
        outcome.locked += [part.partition for part in decision.locked]
        return outcome

    def _work(
        self, tx: Tx, decision: Decision, begun: Any, work: Callable[[Tx, Sequence[Part], Effects], Outcome]
    ) -> Outcome:
        if not decision.apply:
            return Outcome()
        streams = {(p.partition.topic, p.partition.number): self._stream(p.partition) for p in decision.apply}
        effects = Effects(self._dead_letters, Staging(tx), streams)
        outcome = work(tx, decision.apply, effects)
        failpoint("applied", 0)
        if effects.outgoing.rows:
            self._books.put(tx, effects.outgoing.rows)
        failpoint("numbered", 0)
        if outcome.ends and self._books.move(tx, self._target.name, outcome.ends, begun) != len(outcome.ends):
            raise Committed(f"{self._target.name}: expected the transaction to be open, but it was ended.")
        for partition, why in outcome.stopped.items():
            self._books.note_stop(tx.connection, self._target.name, partition, why)
        failpoint("moved", 0)
        outcome.letters, outcome.outgoing = effects.letters, len(effects.outgoing.rows)
        return outcome

    def _whole(self, tx: Tx, parts: Sequence[Part], effects: Effects) -> Outcome:
        reads = [read for part in parts for read in part.records]
        self._take(tx, reads, effects)
        return Outcome(ends={part.partition: part.end for part in parts}, records=len(reads))

    def _take(self, tx: Tx, reads: Sequence[Read], effects: Effects) -> None:
        for read in reads:
            if read.refused is not None:
                effects.refuse(read.record, read.refused)
        self._target.apply(tx, [read for read in reads if read.content is not None], effects)

    def _one_by_one(self, tx: Tx, parts: Sequence[Part], effects: Effects) -> Outcome:
        [part] = parts
        outcome = Outcome()
        for read in part.records:
            why = self._one(tx, read, effects)
            if why:
                outcome.stopped[part.partition] = f"offset {read.record.offset}: {why}"
                break
            outcome.ends[part.partition] = read.record.offset + 1
            outcome.records += 1
        return outcome

    def _one(self, tx: Tx, read: Read, effects: Effects) -> str:
        """Applies a record, or makes it a dead letter. Returns why its partition has to stop; empty: it goes on."""
        tx.execute("SAVEPOINT record")
        before = len(effects.outgoing.rows), effects.letters
        try:
            self._take(tx, [read], effects)
            tx.execute("SET CONSTRAINTS ALL IMMEDIATE")
            tx.execute("RELEASE SAVEPOINT record")
            return ""
        except Exception as e:
            if not self._is_of_records(e):
                raise
            refused, is_data = refusal(e)
        tx.execute("ROLLBACK TO SAVEPOINT record")
        del effects.outgoing.rows[before[0] :]
        effects.letters = before[1]
        if not is_data and self._on_error is OnError.fail:
            return f"{refused.reason}: {refused.detail}"
        effects.refuse(read.record, refused)
        return ""


def refusal(error: Exception) -> tuple[Refused, bool]:
    """A record's error as the reason of a dead letter, and whether its data are at fault. An exception's own message
    may repeat a value, so only its type is told."""
    if isinstance(error, Refused):
        return error, True
    if isinstance(error, Reject):
        return Refused(error.reason, error.detail), True
    if isinstance(error, psycopg.Error):
        return Refused("database", said(error)), judge(error) is Verdict.data
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = "" if trace is None else f" in {trace.tb_frame.f_code.co_qualname}, line {trace.tb_lineno}"
    return Refused("exception", f"{type(error).__name__}{line}"), False
