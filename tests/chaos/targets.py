"""The jobs that schedules run: their logs, how they are started, and what must come out of them by an independent
reference."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from moneystate.engine import clock, keys
from moneystate.engine.keygroup import key_group_of
from moneystate.ports.state import Fact
from moneystate.runtime.layout import owner_of
from moneystate.savepoint.facts import entry_facts
from tests.chaos.schedule import Schedule
from tests.enrichment.harness import inputs, simulation
from tests.enrichment.jobs import STATE
from tests.job.harness import DEAD_LETTERS, ENRICHED, letters, model_values_by_user, values_by_user
from tests.reference import model
from tests.reference.model import LogRecord
from tests.services.joining import live as joining_live
from tests.services.joining import reference as joining_reference
from tests.services.joining.reference import Logged, as_written
from tests.services.joining.workload import as_json, events
from tests.services.live import BOUND_MS, with_junk
from tests.workloads.workload_log import workload_log

Read = Callable[[str], list[LogRecord]]
START_MS = 1_700_000_000_000  # the kafka timestamps of joining's log
RULES = model.Rules(lookup=False)
WORKLOAD = (
    *("--users", "60", "--round-ms", "50", "--late", "0.02", "--odd", "0.02", "--future", "0.01", "--flush-marker"),
    *("--repeat-sessions", "0.2", "--foreign-sessions", "0.05", "--duplicates", "0.05", "--garbage", "0.01"),
)


@dataclass
class Outputs:
    """`values`: of each topic and key, in order; `letters`: what is known of the dead letters, and how often."""

    values: dict[tuple[str, str], list[Hashable]] = field(default_factory=dict)
    letters: Counter[Hashable] = field(default_factory=Counter)


@dataclass(frozen=True)
class Difference:
    lost: int
    doubled: int
    wrong: int

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.wrong)


def difference(want: Outputs, got: Outputs) -> Difference:
    """Records that are not there, that are there too often, and that should not be there or not in this order."""
    lost = doubled = wrong = 0
    for key in want.values.keys() | got.values.keys():
        wanted, there = want.values.get(key, []), got.values.get(key, [])
        missing, more = Counter(wanted) - Counter(there), Counter(there) - Counter(wanted)
        lost += missing.total()
        doubled += sum(n for value, n in more.items() if value in wanted)
        wrong += sum(n for value, n in more.items() if value not in wanted)
        wrong += not missing and not more and wanted != there
    less, more_letters = want.letters - got.letters, got.letters - want.letters
    doubled_letters = sum(n for letter, n in more_letters.items() if letter in want.letters)
    return Difference(lost + less.total(), doubled + doubled_letters, wrong + more_letters.total() - doubled_letters)


class Target(Protocol):
    """`log`: in the order of sending; `times`: its records' event times, None where a record has none."""

    topics: Sequence[str]
    outputs: Sequence[str]
    changelog: str
    commits: str
    service: str  # as `moneystate checkpoint` and `verify-replay` name it; empty: they know
    log: list[LogRecord]
    times: Sequence[int | None]

    def arguments(self, folder: Path) -> list[str]: ...

    def owner_of(self, key: bytes) -> bytes | None: ...

    def wanted(self) -> Outputs:
        """After the whole log and a drain."""
        ...

    def written(self, read: Read, prefix: str) -> Outputs: ...

    def wrong_state(self, entries: Mapping[bytes, bytes], partitions: Sequence[model.Partition]) -> int:
        """How many facts of the drained state are missing in the changelog's entries or should not be there."""
        ...


def move_to_partition(target: Target, topic: str, first: int, partition: int, least_ms: int) -> None:
    """Every second record of the topic, from `first` on, that is not behind `least_ms`."""
    for n in range(first, len(target.log), 2):
        time_ms = target.times[n]
        if target.log[n].topic == topic and time_ms is not None and time_ms >= least_ms:
            target.log[n] = replace(target.log[n], partition=partition)
    ends: Counter[model.Partition] = Counter()
    for n, record in enumerate(target.log):
        place = record.topic, record.partition
        target.log[n] = replace(record, offset=ends[place])
        ends[place] += 1


def live_entries(
    target: Target, changelog: Sequence[LogRecord], key_groups: int, partitions: int
) -> dict[bytes, bytes]:
    """The state as a reader of the changelog has it at its end. It ignores what an earlier number of partitions has
    left elsewhere."""
    entries: dict[bytes, bytes] = {}
    for record in changelog:
        assert record.key is not None
        if record.partition != key_group_of(target.owner_of(record.key) or b"", key_groups) % partitions:
            continue
        if record.value is None:
            entries.pop(record.key, None)
        elif not record.key.startswith(keys.END):
            entries[record.key] = record.value
    return entries


class Enrichment:
    topics: Sequence[str] = model.TIMED_TOPICS
    outputs: Sequence[str] = (ENRICHED, DEAD_LETTERS)
    changelog, commits, service = "money-enrichment-state", "money-enrichment-commits", ""

    def __init__(self, schedule: Schedule) -> None:
        flags = ("--seed", str(schedule.seed), "--events", str(schedule.records * 3 // 4))
        log, _ = workload_log(*WORKLOAD, "--partitions", str(schedule.topic_partitions), *flags)
        self.log = log
        self.times: Sequence[int | None] = [_time_of(r) for r in log]

    def arguments(self, folder: Path) -> list[str]:
        return ["run", "enrichment"]

    def owner_of(self, key: bytes) -> bytes | None:
        return owner_of(key)

    def wanted(self) -> Outputs:
        result = model.run(self.log, {(r.topic, r.partition) for r in self.log}, RULES, drain=True)
        values = {(ENRICHED, user): list[Hashable](made) for user, made in model_values_by_user(result).items()}
        return Outputs(values, Counter(tuple(letter) for letter in result.dead_letters))

    def written(self, read: Read, prefix: str) -> Outputs:
        values = {(ENRICHED, user): list[Hashable](made) for user, made in values_by_user(read(ENRICHED)).items()}
        return Outputs(values, Counter(letters(read(DEAD_LETTERS), prefix).elements()))

    def wrong_state(self, entries: Mapping[bytes, bytes], partitions: Sequence[model.Partition]) -> int:
        sim = simulation(RULES, partitions, key_groups=1)
        sim.batch(inputs(self.log))
        sim.batch([], drain=True)
        (state,) = sim.states
        watermark = clock.decode(state.entries[clock.KEY]).watermark
        want = {key: value for key, value in state.entries.items() if not keys.is_engines(key)}
        rules = {"dedup_ttl_ms": RULES.dedup_ttl_ms}

        def facts(entries: Mapping[bytes, bytes]) -> Counter[Fact]:
            return Counter(f for pair in sorted(entries.items()) for f in entry_facts(*pair, STATE, watermark, rules))

        expected, there = facts(want), facts(entries)
        return (expected - there).total() + (there - expected).total()


def _time_of(record: LogRecord) -> int | None:
    try:
        time_ms = model.decode(record.value or b"")[1]["processedAt"]
    except Exception:  # garbage
        return None
    return time_ms if isinstance(time_ms, int) else None


class Joining:
    topics: Sequence[str] = ("parts",)
    outputs: Sequence[str] = ("joined", "joining-dead-letters")
    changelog, commits, service = "joining-state", "joining-commits", "joining"

    def __init__(self, schedule: Schedule) -> None:
        made = events(schedule.seed, schedule.records, ids=12)
        placed = [*with_junk(made, as_json, [*joining_live.JUNK], schedule.topic_partitions, schedule.seed)]
        self.log = [LogRecord("parts", p.partition, p.offset, START_MS, None, p.value) for p in placed]
        self.events = [p.record for p in placed]
        self.times: Sequence[int | None] = [None if e is None else _event_time(e) for e in self.events]

    def arguments(self, folder: Path) -> list[str]:
        config = folder / "services.toml"
        config.write_text(joining_live.TABLES)
        return ["run", "joining", "--config", str(config), "--bound", f"{BOUND_MS}ms"]

    def owner_of(self, key: bytes) -> bytes | None:
        return owner_of(key)

    def wanted(self) -> Outputs:
        log = [Logged(r.partition, r.offset, e) for r, e in zip(self.log, self.events, strict=True)]
        want = joining_reference.run(log, joining_live.RULES)
        junk = [joining_live.JUNK[r.value] for r, e in zip(self.log, self.events, strict=True) if e is None]
        values = {("joined", id): [json.dumps(v, sort_keys=True) for v in made] for id, made in want.joined.items()}
        return Outputs({key: list[Hashable](made) for key, made in values.items()}, Counter([*want.letters, *junk]))

    def written(self, read: Read, prefix: str) -> Outputs:
        values: dict[tuple[str, str], list[Hashable]] = defaultdict(list)
        for r in read("joined"):
            document = None if r.value is None else as_written(r.value)
            values["joined", (r.key or b"").decode()].append(json.dumps(document, sort_keys=True))
        reasons = [(dict(r.headers)["moneystate.reason"] or b"").decode() for r in read("joining-dead-letters")]
        return Outputs(dict(values), Counter(reasons))

    def wrong_state(self, entries: Mapping[bytes, bytes], partitions: Sequence[model.Partition]) -> int:
        """After the end of all ids nothing is left."""
        return len(entries)


def _event_time(event: object) -> int:
    time_ms: int = next(getattr(event, name) for name in vars(event) if name.endswith("_at"))
    return time_ms


TARGETS: dict[str, Callable[[Schedule], Target]] = {"enrichment": Enrichment, "joining": Joining}
