"""A bootstrap in this process, and archives written from records in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from moneystate.bootstrap.files import AVRO, NO_OFFSET, NO_TIMESTAMP, ArchivedRecord, write_file
from moneystate.bootstrap.job import Bootstrap, Progress
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.bootstrap.tasks import InProcess
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import Savepoint
from moneystate.testing.simulation import Input, Simulation
from tests.enrichment import topics
from tests.enrichment.jobs import Rules, enrichment_job

NAMES = topics.NAMES


class Here(InProcess):
    """Splits the work as for two cores."""

    cores = 2


def write_archive(
    folder: Path,
    records: Iterable[Input],
    partitions: Iterable[tuple[int, int]],
    file_format: str = AVRO,
    per_file: int = 7,
    with_offsets: bool = True,
    names: Mapping[int, str] = NAMES,
) -> None:
    """Files of `per_file` records each; a folder for each of `partitions`, with records or without."""
    by_partition: dict[tuple[int, int], list[Input]] = {place: [] for place in partitions}
    for record in records:
        by_partition[record.topic, record.partition].append(record)
    for name in {names[topic] for topic, _ in by_partition}:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for (topic, partition), mine in by_partition.items():
        place = folder / names[topic] / str(partition)
        place.mkdir()
        for n, start in enumerate(range(0, len(mine), per_file)):
            part = mine[start : start + per_file]
            name = f"{part[0].offset}-{part[-1].offset}" if with_offsets else f"part-{n}"
            write_file(place / f"{name}.{file_format}", [kept(r, with_offsets) for r in part])


def kept(r: Input, with_offset: bool = True) -> ArchivedRecord:
    timestamp = r.timestamp_ms if with_offset else NO_TIMESTAMP
    kind = NO_TIMESTAMP if timestamp < 0 else 0
    return ArchivedRecord(r.offset if with_offset else NO_OFFSET, timestamp, kind, r.key, r.value, r.headers)


def bootstrap(rules: Rules, out: Path, tell: Callable[[Progress], None] = lambda p: None, **more: Any) -> Savepoint:
    """A savepoint made in this process; `more`: BootstrapOptions."""
    options = BootstrapOptions(out=out, **{"key_groups": 4, "partitions": 2, "max_records_per_chunk": 10, **more})
    Bootstrap(enrichment_job(rules), options, tell).run(Here())
    return Savepoint(out)


def fingerprint(sim: Simulation, rules: Rules) -> str:
    """Computes the fingerprint of a simulated job's state."""
    job = enrichment_job(rules)
    groups = [
        of_group(number, sorted(state.entries.items()), job.state, job.rules) for number, state in enumerate(sim.states)
    ]
    return str(sum(groups, Fingerprint()))
