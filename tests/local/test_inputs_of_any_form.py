"""Inputs with headers, functions, fallbacks and change events, on a log in memory: what Bench says of the same Kafka
records, in a replay and in a bootstrap from an archive, too."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moneystate.api.service import Service
from moneystate.job.local.memory_clients import memory_log
from moneystate.testing import Bench
from tests.api.services import mailbox, mirror
from tests.job.harness import Finished
from tests.kafka.logs import Cluster
from tests.local.in_memory import good

S = 1_000
NO_HEADERS: Mapping[str, str | None] = {}
POST = {"ce_id": "1", "ce_source": "/shop", "ce_type": "note", "ce_time": "1970-01-01T00:00:05Z"}
TABLE = "db.public.customers"


class Raw(NamedTuple):
    topic: str
    value: bytes | str | None = None
    key: str | None = None
    headers: Mapping[str, str | None] = NO_HEADERS


def change(time_ms: int, **parts: Any) -> Raw:
    return Raw(TABLE, json.dumps({"before": None, "after": None, **parts, "source": {"ts_ms": time_ms}}))


MAIL = [
    Raw("readings", struct.pack(">iq", 5, 3), "s1"),
    Raw("readings", b"\xff", "s1", {"trace": "7"}),
    Raw("readings", b"", "s1"),
    Raw("letters", '{"who": "eve", "text": "hi", "at": 4000}'),
    Raw("letters", "no json", "eve", {"at": "4500"}),
    Raw("letters", "no json", "bob"),
    Raw("posts", '{"text": "hello"}', None, POST),
    Raw("posts", '{"text": "no id"}', None, {**POST, "ce_id": None}),
    Raw("pings", None, None, {"host": "h1", "at": "6000"}),
    *[Raw(i, '{"type":"Heartbeat","processedAt":9000}') for i in ("readings", "letters", "posts", "pings", "events")],
]
CHANGES = [
    change(3 * S, after={"customer_id": 7, "first_name": "Eve"}, op="c"),
    change(4 * S, before={"customer_id": 7}, op="d"),
    Raw(TABLE, None, "7"),
    change(5 * S, after={"customer_id": 8, "first_name": "Bo"}, op="r"),
    change(6 * S, after={"customer_id": 9}, op="u"),
    Raw(TABLE, '{"type": "Heartbeat", "processedAt": 9000}'),
]


def benched(service: Service[None], records: list[Raw]) -> Bench:
    bench = Bench(service, bound_ms=2 * S)
    for record in records:
        bench.send_raw(record.topic, record.value, record.key, headers=record.headers)
    bench.end()
    return bench


class Services:
    """Both in one Spark application, their input in one partition each."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers = servers
        self.folder = folder
        self.paths = {}
        for module in (mailbox, mirror):
            file = Path(str(module.__file__))
            copy = folder / f"any_{file.name}"
            copy.write_text(file.read_text())
            self.paths[module.service.name] = f"{copy}:service"
        self.cluster = cluster = Cluster(self.servers, "")
        for path in self.paths.values():
            self.moneystate("schemas", "release", path)
        producer = cluster.producer()
        for topic in sorted({i.topic for module in (mailbox, mirror) for i in module.service.inputs}):
            cluster.create(topic)
        for record in MAIL + CHANGES:
            producer.produce(record.topic, record.value, record.key, 0, headers=list(record.headers.items()))
        assert producer.flush(30) == 0
        self.moneystate(
            *("run", "--local", *self.paths.values(), "--bound", "2s", "--key-groups", "3"),
            *("--bootstrap-servers", self.servers),
            *("--checkpoint", folder / "checkpoints", "--partitions", "1", "--topic-partitions", "1", "--quiet"),
            "--until-caught-up",
        )

    def moneystate(self, *arguments: object) -> Finished:
        return good(arguments)

    def read(self, topic: str) -> list[Any]:
        return self.cluster.read(topic)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with memory_log() as (_, address):
        yield Services(address, tmp_path_factory.mktemp("any_form"))


@pytest.mark.parametrize(
    ("service", "records", "output"), [(mailbox.service, MAIL, mailbox.lines), (mirror.service, CHANGES, mirror.now)]
)
def test_a_job_puts_out_what_bench_says(
    services: Services, service: Service[None], records: list[Raw], output: Any
) -> None:
    bench = benched(service, records)
    codec = bench.plan.outputs[output].codec
    wanted = bench.out(output)
    assert sorted(map(repr, wanted)) == sorted(repr(codec.decode(r.value)) for r in services.read(output.topic))
    letters = services.read(f"{service.name}-dead-letters")
    reasons = [(dict(letter.headers)["moneystate.reason"] or b"").decode() for letter in letters]
    assert sorted(reasons) == sorted(bench.dead_letters())
    assert wanted
    assert reasons


def test_a_dead_letter_of_a_function_has_the_original_record(services: Services) -> None:
    letters = {letter.value: letter for letter in services.read("mailbox-dead-letters")}
    letter = letters[b"\xff"]
    assert (letter.key, dict(letter.headers)["trace"]) == (b"s1", b"7")


@pytest.mark.parametrize("name", ["mailbox", "mirror"])
def test_a_replay_and_a_bootstrap_from_an_archive_agree(services: Services, name: str) -> None:
    checkpoint, path = services.folder / "checkpoints" / name, services.paths[name]
    more = ("--service", path, "--bootstrap-servers", services.servers)
    replayed = services.moneystate("verify-replay", "--checkpoint", checkpoint, *more, "--json", "--quiet").totals
    assert replayed["agrees"]
    assert replayed["output_expected"] > 0
    archive, exported = services.folder / f"{name}-archive", services.folder / f"{name}-exported"
    services.moneystate("archive", "--archive", archive, *more)
    services.moneystate(
        "checkpoint", "export", "--checkpoint", checkpoint, "--out", exported, "--service", path, "--quiet"
    )
    bootstrapped = services.moneystate(
        *("bootstrap", "--local", "--from", archive, "--out", services.folder / f"{name}-made", "--service", path),
        *("--bound", "2s", "--key-groups", "3", "--partitions", "1", "--json", "--quiet"),
    ).totals
    fingerprint = services.moneystate("checkpoint", "fingerprint", exported, "--service", path, "--json").totals
    assert bootstrapped["fingerprint"] == fingerprint["fingerprint"]
