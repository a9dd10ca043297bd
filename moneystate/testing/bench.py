"""A service in memory: the engine, the codecs and the batches of a job, without Kafka, Spark and clocks.

    bench = Bench(orders.service, bound_ms=5_000)
    bench.send(OrderPlaced("a", "eve", 700, MINUTE), PaymentTaken("p1", "a", 700, 2 * MINUTE))
    assert bench.out(orders.closed) == [Closed("a", "PAID", 0)]

Every record goes through its Avro bytes, every batch through its state's bytes. What is read stands at the time of the
latest record that was sent: a heartbeat in each input passes it. A record that is sent after that with an earlier time
is late, as it would be in a job. `end` runs all of it again in other batches, and fails where anything differs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, overload

from moneystate.api.handles import Input, Map, Output, Value
from moneystate.api.plan import Plan
from moneystate.api.service import Service
from moneystate.api.view import View
from moneystate.testing.run import CRASH, Crash, Run, Sent

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")
Cuts = Literal["random", "one", "each"]
REPLAYS: Final = 2

__all__ = ["CRASH", "Bench"]


class Bench:
    """`cuts`: where batches end: at random places, all in one batch, or after each record. `rules`: in place of those
    that the service is declared with. `dead_letter_errors`: as `--on-error dead-letter` does it."""

    def __init__(
        self, service: Service[R], bound_ms: int = 20_000, *, rules: R | None = None, cuts: Cuts = "random",
        seed: int = 0, partitions: int = 1, key_groups: int = 3, dead_letter_errors: bool = False,
    ) -> None:  # fmt: skip
        self.service = service
        self.plan = Plan(service, rules)
        self.cuts = cuts
        self.seed = seed
        self.partitions = partitions
        self.log: list[Sent | Crash] = []
        self.made: Callable[[], Run] = lambda: Run(self.plan, bound_ms, partitions, key_groups, dead_letter_errors)
        self.run = self.made()
        self.random = random.Random(seed)
        self.bound_ms = bound_ms
        self.latest: int | None = None
        self.ended = False
        self.taken = 0
        self.ends: dict[tuple[int, int], int] = {}

    # What goes in

    def send(self, *records: Any, to: Input[Any] | None = None) -> None:
        """Append records to their inputs. `CRASH` among them: the batch of the record before it is thrown away once it
        has run, and runs again. `to`: the input, where several take records of the type."""
        if self.ended:
            raise ValueError("the bench has ended: send before end()")
        for record in records:
            if isinstance(record, Crash):
                self.log.append(record)
                continue
            plan = self._input(record, to)
            value = plan.codec.encode(record)
            time = plan.time(record)
            if plan.ordered:
                self.latest = time if self.latest is None else max(self.latest, time)
            keys = [b""] if plan.keys is None else plan.keys.keys(record)
            self._append(plan.code, (sum(keys[0]) if keys else 0) % self.partitions, value)

    def _input(self, record: Any, to: Input[Any] | None) -> Any:
        candidates = [
            plan
            for plans in self.plan.inputs.values()
            for plan in plans.values()
            if plan.codec.record.cls is type(record) and (to is None or to.topic == plan.topic)
        ]
        if len(candidates) != 1:
            name = type(record).__name__
            problem = (
                "no input takes" if not candidates else f"inputs {', '.join(sorted(p.topic for p in candidates))} take"
            )
            raise ValueError(
                f"{problem} records of type {name}: {'declare one' if not candidates else 'name one as to='}"
            )
        return candidates[0]

    def _append(self, topic: int, partition: int, value: bytes) -> None:
        offset = self.ends.get((topic, partition), 0)
        self.ends[topic, partition] = offset + 1
        self.log.append(Sent(topic, partition, offset, value))

    def _settle(self) -> None:
        """Process all that was sent, up to the time of its latest record."""
        if self.taken == len(self.log):
            return
        if self.latest is not None and not self.ended:
            beat = self.run.heartbeat(self.latest + self.bound_ms + 1)
            for topic, partition in self.run.partitions:
                self._append(topic, partition, beat)
        self._batches(self.run, self.random, self.log[self.taken :])
        self.taken = len(self.log)

    def _batches(self, run: Run, chance: random.Random, log: list[Sent | Crash]) -> None:
        if self.cuts == "one":
            ends = [len(log)]
        elif self.cuts == "each":
            ends = list(range(1, len(log) + 1))
        else:
            ends = sorted(chance.choices(range(len(log) + 1), k=chance.randint(0, min(len(log), 12)))) + [len(log)]
        start = 0
        for end in ends:
            run.batch(log[start:end])
            start = max(start, end)

    # What comes out

    def out(self, output: Output[T]) -> list[T]:
        """All records of an output, in the order of the events and timers that caused them."""
        self._settle()
        return self.run.out(output)

    def dead_letters(self) -> list[str]:
        """The reasons of all dead letters, in the order in which their records were sent."""
        self._settle()
        return self.run.dead_letters()

    def count(self, name: str) -> int:
        self._settle()
        return self.run.count(name)

    @overload
    def state(self, of: Value[S], key: str) -> S: ...
    @overload
    def state(self, of: Map[S], key: str) -> dict[str, S]: ...
    def state(self, of: Value[Any] | Map[Any], key: str) -> Any:
        """A key's record, or its entries by id."""
        self._settle()
        view = self.run.view()
        return dict(view.entries(of, key)) if isinstance(of, Map) else view.get(of, key)

    def ask(self, query: Callable[Concatenate[View, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._settle()
        return query(self.run.view(), *args, **kwargs)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries of the service's state, as stored."""
        self._settle()
        return iter(sorted(self.run.entries()))

    def end(self) -> None:
        """Let time go to its end: every timer is due. Then run all of it again in other batches: everything that comes
        out, and the state, must be the same. Raises AssertionError."""
        self._settle()
        self.ended = True
        self.run.batch([], drain=True)
        for replay in range(1, REPLAYS + 1):
            other = self.made()
            self._batches(other, random.Random(self.seed + replay), self.log)
            other.batch([], drain=True)
            self.run.check_same(other)
