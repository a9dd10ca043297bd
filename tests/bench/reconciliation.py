"""Throughput of the reconciliation, beside its join on Kafka Streams (`peers/OuterJoinPeer.java`), on one log.

Both must say of each event whether it is on both sides, as a plain reading of the log says it. The service also counts
by interval. The rate is that of what each puts out for an event, scaled to items.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import PARTITIONS, Result, create_outputs, end_of, messages
from tests.bench.load import Record
from tests.bench.services import run_service, send
from tests.bench.streams import run_streams
from tests.services.reconciliation.load import ANNOUNCED, LOAD, START_MS, announced, arrived

NAME: Final = "reconciliation"
JOIN_ALONE: Final = "services.reconciliation.service:reconciliation"
JOINED: Final = "joined"
TICKS: Final = "ticks"  # the source of events that only let time pass
AFTER_MS: Final = 300_000  # longer than n, m and o
SETTINGS: Final = {"WINDOW_MS": "10000", "GRACE_MS": "5000"}  # n and the bound


def outcomes(records: Iterator[Record]) -> dict[str, str]:
    """Returns the outcome of each event."""
    sides: dict[str, set[str]] = {}
    for topic, id, _ in records:
        sides.setdefault(id, set()).add(topic)
    return {
        id: "MATCHED" if len(mine) == 2 else "MISSING" if ANNOUNCED in mine else "UNEXPECTED"
        for id, mine in sides.items()
    }


def tick(producer: Producer, prefix: str, time_ms: int) -> None:
    """Let time pass in every partition."""
    for partition in range(PARTITIONS):
        for record in (
            announced(TICKS, f"{time_ms}-{partition}", time_ms),
            arrived(TICKS, f"{time_ms}-{partition}", time_ms),
        ):
            producer.produce(prefix + record.topic, record.value, record.key, partition)
    assert producer.flush(30) == 0


def prepare(servers: str, prefix: str, items: int) -> None:
    """Topics and the log, with an end at which nothing waits any more."""
    send(servers, LOAD, items, prefix)
    tick(Producer({"bootstrap.servers": servers}), prefix, START_MS + items + AFTER_MS)


def joined(servers: str, prefix: str) -> list[tuple[str, str]]:
    """The peer's results."""
    values = [json.loads(message.value() or b"") for message in messages(servers, prefix + JOINED)]
    return [(value["eventId"], value["kind"]) for value in values if value["source"] != TICKS]


def run_peer(servers: str, prefix: str, wanted: dict[str, str], settings: dict[str, str]) -> tuple[Result, int]:
    """With how many results are not those of the log. It puts out what has waited too long once a second, and only
    when an item comes."""
    create_outputs(servers, [prefix + JOINED])
    producer, ticks = Producer({"bootstrap.servers": servers}), count(START_MS + 2 * len(wanted) + 2 * AFTER_MS, 1_000)

    def is_done() -> bool:
        tick(producer, prefix, next(ticks))
        return end_of(servers, prefix + JOINED) >= len(wanted) and len(joined(servers, prefix)) >= len(wanted)

    done = run_streams(servers, prefix, "OuterJoinPeer", JOINED, is_done, {**SETTINGS, **settings})
    wrong = Counter(joined(servers, prefix))
    wrong.subtract(wanted.items())
    return done, sum(n for n in wrong.values() if n > 0)


def check_findings(servers: str, prefix: str, wanted: dict[str, str]) -> None:
    """That they are those of the log."""
    written = Counter[tuple[str, str]]()
    for message in messages(servers, f"{prefix}reconciliation-findings"):
        finding = json.loads(message.value() or b"")
        written[finding["eventId"], finding["kind"]] += 1
    differences = {(id, kind) for id, kind in wanted.items() if kind != "MATCHED"}
    lost = {(id, "LOST") for id, kind in differences if kind == "MISSING"}
    assert written == Counter(differences | lost), "the findings differ from the log"


def check_counts(servers: str, prefix: str, wanted: dict[str, str]) -> None:
    """That the final ones are those of the log."""
    totals = Counter[str]()
    for message in messages(servers, f"{prefix}reconciliation-completeness"):
        record: dict[str, Any] = json.loads(message.value() or b"")
        if record["final"]:
            totals.update({name: record[name] for name in ("matched", "missing", "unexpected")})
    assert totals == Counter(kind.lower() for kind in wanted.values()), f"the counts differ from the log: {totals}"


def bytes_on_disk(folder: Path, prefix: str) -> dict[str, int]:
    """Measures each topic's records, in the broker's folder."""
    sizes = Counter[str]()
    for path in folder.rglob(f"{prefix}*/*.log"):
        sizes[path.parent.name.removeprefix(prefix).rpartition("-")[0]] += path.stat().st_size
    return dict(sorted(sizes.items()))


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    p.add_argument("--events", type=int, default=400_000, help="items")
    p.add_argument("--runs", type=int, default=1, help="of each, by turns")
    p.add_argument("--peer", action="append", default=[], help="NAME=VALUE,...: another setting of the peer")
    p.add_argument("--no-peer", action="store_true", help="the service alone")
    p.add_argument("--no-counts", action="store_true", help="the join alone: findings, without the service that counts")
    a = p.parse_args(arguments)
    name = JOIN_ALONE if a.no_counts else NAME
    log = list(LOAD.records(a.events))
    wanted = outcomes(iter(log))
    settings = [dict(one.split("=") for one in given.split(",") if one) for given in ["", *a.peer]]
    results: list[tuple[Result, int]] = []
    disk: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        for number in range(a.runs):
            prefix = f"own{number}-"
            prepare(servers, prefix, a.events)
            results.append((run_service(servers, prefix, name, LOAD, a.flags), 0))
            check_findings(servers, prefix, wanted)
            if not a.no_counts:
                check_counts(servers, prefix, wanted)
            disk = bytes_on_disk(Path(folder), prefix)
            for setting, given in enumerate([] if a.no_peer else settings):
                prefix = f"streams{number}-{setting}-"
                prepare(servers, prefix, a.events)
                results.append(run_peer(servers, prefix, wanted, given))
    show(results, a.events)
    print(", ".join(f"{topic}: {size / a.events:.1f} bytes an item on disk" for topic, size in disk.items()))


def show(results: list[tuple[Result, int]], items: int) -> None:
    """Ratios are those of the service's run before. `wrong`: results that the log does not bear out."""
    table = Table("what", "items/s", "outputs", "wrong", "wall s", "start s", "CPU us/item", "peak MB", "ratio")
    own = 0.0
    for r, wrong in results:
        rate, ratio = r.rate * items / r.outputs, ""
        if r.name in (NAME, JOIN_ALONE):
            own = rate
        else:
            ratio = "not the same join" if wrong else f"{own / rate:.2f}"
        cpu = f"{r.cpu_s / items * 1e6:.0f}"
        figures = (f"{r.wall_s:.1f}", f"{r.start_s:.1f}", cpu, f"{r.rss_mb:,}")
        table.add_row(r.name, f"{rate:,.0f}", f"{r.outputs:,}", f"{wrong:,}", *figures, ratio)
    Console(width=150).print(table)
