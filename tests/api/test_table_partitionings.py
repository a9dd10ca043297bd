"""However the records of orders and tables are spread over partitions, as long as no record is late and each key of a
table is in one partition: the same outputs and the same fingerprint of the state."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from moneystate.records.platform_records import Heartbeat
from moneystate.runtime.job import job_spec
from moneystate.runtime.plans import plan_of
from moneystate.savepoint.facts import facts
from moneystate.savepoint.fingerprint import Fingerprint, of_facts
from moneystate.testing.run import Advance, Entry, Run, Sent, Whole
from tests.api.services.pricing import Placed

PRICING = "tests.api.services.pricing:service"
PARTITIONINGS = 20
MOST_PARTITIONS = 40
BOUND_MS = 10_000
S = 1_000
END_MS = 300 * S


def pricing_log(chance: random.Random) -> list[tuple[str, bytes | None, Any]]:
    """Topic, key and content of each record, in the order of arrival. Each time is there once."""
    log: list[tuple[str, bytes | None, Any]] = [("prices", b"a", ({"sku": "a", "cents": 7}, 0))]
    for number, now in enumerate(sorted(chance.sample(range(100 * S, 200 * S), 300))):
        topic = chance.choice(("orders", "prices", "limits", "group-discounts"))
        ahead = chance.choice((None, now + chance.randrange(40 * S)))
        removed = chance.random() < 0.2
        if topic == "orders":
            customer = f"c{chance.randrange(9)}"
            log.append((topic, None, (Placed(number, customer, chance.choice("abc"), 1, "de", now), now)))
        elif topic == "prices":
            sku = chance.choice("abc")
            row = {"sku": sku, "cents": number, "validFrom": iso(ahead)}
            log.append((topic, sku.encode(), (None if removed else row, now)))
        elif topic == "limits":
            row = {"most": number, "validFrom": iso(ahead)}
            log.append((topic, f"c{chance.randrange(9)}".encode(), (None if removed else row, now)))
        else:
            row = {"group": 1, "country": "de", "percents": [number]}
            log.append((topic, b'["1","de"]', (None if removed else row, now)))
    return log


def iso(ms: int | None) -> str | None:
    return None if ms is None else f"1970-01-01T00:{ms // 60_000:02}:{ms / 1000 % 60:06.3f}Z"


def spread(
    log: list[tuple[str, bytes | None, Any]], chance: random.Random, most: int
) -> tuple[list[Entry], dict[int, int]]:
    """The log with a random partition for each order, and for each key of a table."""
    plan = plan_of(PRICING)
    partitions = {code: chance.randint(1, most) for code in plan.topics}
    seed, ends = chance.random(), Counter[tuple[int, int]]()
    entries: list[Entry] = []
    for topic, key, (content, now) in log:
        code = plan.codes[topic]
        by_key = random.Random(f"{seed} {topic} {key!r}") if key is not None else chance
        place = (code, by_key.randrange(partitions[code]))
        offset, ends[place] = ends[place], ends[place] + 1
        if key is None:
            entries.append(Sent(*place, offset, plan.codecs[Placed].encode(content)))
        else:
            value = None if content is None else json.dumps(content).encode()
            entries.append(Sent(*place, offset, b"", Whole(key, value, {}, now, raw=True)))
    beat = plan.heartbeat.encode(Heartbeat(END_MS + BOUND_MS))
    orders = plan.codes["orders"]
    entries += [Sent(orders, p, ends[orders, p], beat) for p in range(partitions[orders])]
    return [*entries, Advance(END_MS)], partitions


def result(entries: list[Entry], partitions: dict[int, int], chance: random.Random) -> tuple[Any, Fingerprint, int]:
    """Returns the result of a run in random batches, and a drain."""
    job = job_spec(PRICING, {"bound_ms": BOUND_MS})
    run = Run(plan_of(PRICING), BOUND_MS, partitions, chance.randint(1, 5), False)
    start = 0
    for end in [*sorted(chance.randint(0, len(entries)) for _ in range(chance.randint(0, 5))), len(entries)]:
        run.batch(entries[start:end])
        start = end
    run.batch([], drain=True)
    groups = [
        of_facts(facts(sorted(s.entries.items()), job.state, job.rules, with_clock=False)) for s in run.sim.states
    ]
    by_key: dict[tuple[int, bytes | None], list[bytes | None]] = {}
    for stream, key, value, _ in run.sim.outputs:
        by_key.setdefault((stream, key), []).append(value)
    return by_key, sum(groups, Fingerprint()), run.count("late")


def test_priced_orders_are_the_same_in_any_partitioning() -> None:
    chance = random.Random(3)
    log = pricing_log(chance)
    whole = result(*spread(log, chance, most=1), chance)
    assert (sum(map(len, whole[0].values())) > 150, whole[2]) == (True, 0)
    for _ in range(PARTITIONINGS):
        assert result(*spread(log, chance, MOST_PARTITIONS), chance) == whole
