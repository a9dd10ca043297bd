"""What one schedule does, made of its seed alone: the log, the job's settings, and the faults with their moments.

Each hundred seeds have every kind of fault as often as `OF_A_HUNDRED` says, and the kills at failpoints go through all
failpoints on all targets in turn. So any 1,000 consecutive seeds have each kind 40 times or more, and each failpoint
on each target 11 times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product

TARGETS = ("enrichment", "joining")
# In the order in which a run reaches them.
FAILPOINTS = (
    "claimed", "fenced", "planned", "init", "marker read", "begun", "produced", "marked", "committed", "sunk"
)  # fmt: skip
ONCE_A_RUN = ("claimed", "fenced", "init", "marker read")  # only the first batch of a run has new producers
OF_THE_DRIVER = ("claimed", "fenced", "planned", "sunk")  # the others are in the sink host
IN_TRANSACTION = ("begun", "produced", "marked")
HELD = -1  # of `Moment.after_ms`
OF_A_HUNDRED = {
    "failpoint": 22,  # kill -9 of all processes at a failpoint, or of the one that is there
    "kill": 14,  # kill -9 of one process, or of all, at a random moment
    "damage": 8,  # a file of the checkpoint is truncated, emptied or removed between two runs
    "broker": 7,  # the broker is killed or restarted in a transaction
    "zombie": 6,  # all processes are frozen, a successor runs, they wake up
    "network": 6,  # slow, cut or silent, between job and broker
    "disk": 6,  # no room left for the checkpoint or for local files
    "clock": 5,  # the job's clock jumps
    "memory": 5,  # one process, or all, may allocate hardly anything more
    "retention": 5,  # retention or compaction overtakes the job
    "freeze": 4,  # frozen for some seconds, without a successor
    "partitions": 4,  # added to a topic
    "topics": 4,  # deleted and created again
    "duplicate": 4,  # two starts at one moment
}
VARIANTS = {
    "failpoint": ("all", "driver", "sink host"),
    "kill": ("all", "driver", "jvm", "worker", "sink host", "planner"),
    "damage": (
        "offsets", "commits", "metadata", "settings", "start", "rules", "changelog", "snapshot", "sst", "driver log"
    ),
    "broker": ("kill", "stop"),
    "zombie": ("after", "during"),
    "network": ("slow", "thin", "cut", "silent"),
    "disk": ("checkpoint", "local"),
    "clock": ("forward", "back", "far forward"),
    "memory": ("worker", "sink host", "driver", "jvm", "all"),
    "retention": ("read", "unread", "compact inputs", "compact outputs"),
    "freeze": ("all", "jvm", "worker", "sink host", "past the timeout"),
    "partitions": ("inputs", "outputs", "changelog"),
    "topics": ("input", "commits", "changelog"),
    "duplicate": ("new", "old"),
}  # fmt: skip
OPERATIONS = {"damage": ("truncated", "emptied", "removed")}
AT_REST = ("damage", "retention", "partitions", "topics", "duplicate")  # between two runs
MORE = ("failpoint", "kill", "broker", "network", "freeze")  # a second fault is one of these
SECOND = 0.2
assert sum(OF_A_HUNDRED.values()) == 100
assert OF_A_HUNDRED.keys() == VARIANTS.keys()


@dataclass(frozen=True)
class Moment:
    """A failpoint of a batch, counted from the first that is not finished; the fault comes so many ms after it, or
    while the job is held there."""

    step: str
    batch: int = 0
    after_ms: int = HELD

    def __str__(self) -> str:
        place = f"{self.step}@{self.batch}"
        return place if self.after_ms == HELD else f"{place}+{self.after_ms}ms"


@dataclass(frozen=True)
class Fault:
    """`moment` None: between two runs."""

    kind: str
    variant: str
    moment: Moment | None = None
    how: str = ""
    chance: int = 0  # for choices that depend on what is there at that time

    def __str__(self) -> str:
        words = [self.kind, self.variant, self.how, "" if self.moment is None else f"at {self.moment}"]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Schedule:
    seed: int
    target: str
    records: int  # about
    batch_records: int
    key_groups: int
    partitions: int  # output partitions
    topic_partitions: int
    faults: tuple[Fault, ...]
    replay: bool  # whether a replay is compared at the end, too

    def __str__(self) -> str:
        return f"{self.target}: {', '.join(map(str, self.faults))}"


def schedule_of(seed: int) -> Schedule:
    rng = random.Random(f"schedule {seed}")
    kind, number = first_kind(seed)
    target = rng.choice(TARGETS)
    if kind == "failpoint":
        everywhere = list(product(FAILPOINTS, TARGETS))
        rounds, place = divmod(number, len(everywhere))
        step, target = everywhere[place]
        first = Fault(kind, "all" if rounds % 2 == 0 else process_at(step), _moment_at(rng, step))
    else:
        first = fault(rng, kind, number)
    key_groups = rng.choice((2, 4, 8))
    second = [fault(rng, more, rng.randrange(100)) for more in (rng.choice(MORE),) if rng.random() < SECOND]
    return Schedule(
        seed=seed,
        target=target,
        records=rng.choice((400, 600, 900)),
        batch_records=rng.choice((90, 150, 220)),
        key_groups=key_groups,
        partitions=min(key_groups, rng.choice((1, 2, 2, 3))),
        topic_partitions=rng.choice((1, 2, 3)),
        faults=(first, *second),
        replay=kind == "damage" or seed % 4 == 0,
    )


def process_at(failpoint: str) -> str:
    return "driver" if failpoint in OF_THE_DRIVER else "sink host"


def first_kind(seed: int) -> tuple[str, int]:
    """The kind of a schedule's first fault, and how many schedules of that kind there are before it."""
    hundred, place = divmod(seed, 100)
    deck = [kind for kind, n in OF_A_HUNDRED.items() for _ in range(n)]
    random.Random(f"deck {hundred}").shuffle(deck)
    kind = deck[place]
    return kind, hundred * OF_A_HUNDRED[kind] + deck[:place].count(kind)


def fault(rng: random.Random, kind: str, number: int) -> Fault:
    """`number`: variants take turns."""
    if kind == "failpoint":
        moment = _moment_at(rng, rng.choice(FAILPOINTS))
        return Fault(kind, rng.choice(("all", process_at(moment.step))), moment)
    variants = VARIANTS[kind]
    variant = variants[number % len(variants)]
    operations = OPERATIONS.get(kind, ("",))
    how = operations[number // len(variants) % len(operations)]
    return Fault(kind, variant, None if kind in AT_REST else _moment(rng, kind, variant), how, rng.randrange(1 << 30))


def _moment(rng: random.Random, kind: str, variant: str) -> Moment:
    if kind in ("broker", "freeze") or (kind == "network" and rng.random() < 0.5):
        return Moment(rng.choice(IN_TRANSACTION), rng.randrange(3))
    if kind == "zombie":
        return _moment_at(rng, rng.choice(FAILPOINTS))
    if kind == "kill" and rng.random() < 0.3:
        return Moment("start", 0, rng.randrange(8_000))
    return Moment(rng.choice(("planned", "begun", "committed")), rng.randrange(3), rng.randrange(500))


def _moment_at(rng: random.Random, step: str) -> Moment:
    return Moment(step, 0 if step in ONCE_A_RUN else rng.randrange(3))
