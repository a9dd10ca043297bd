"""What queries answer is what the reference model knows: of every user, at the end and at pinned versions, after
replica, job and broker were killed in turn; and a user who is forgotten is gone from all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from moneystate.devbroker import DevBroker
from moneystate.engine.plan import from_offset
from moneystate.job.checkpoint import Checkpoint
from moneystate.records.iso_time import to_ms
from moneystate.serving.client import Client, Target
from moneystate.state.v1 import header_pb2, state_pb2, status_pb2
from tests.job.harness import JobProcess, Setup, small_workload
from tests.log_lines import impersonal
from tests.query.serving import UP_S, wait_for
from tests.reference import model
from tests.reference.builder import LogBuilder
from tests.reference.model import LogRecord, Rules

RULES = Rules(lookup=True, session_ttl_ms=600_000, dedup_ttl_ms=20_000, session_wait_ms=30_000)
FLAGS = ("--session-ttl", "10m", "--dedup-ttl", "20s", "--session-wait", "30s", "--session-lookup", "topic")
LISTENING = re.compile(r"listening on (\S+) \(")
PART_RECORDS = 900
STATES = ("user", "sessions", "waiting", "session_lookup")
NO_INFO = {"birthYear": None, "residentCountryCode": None}


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[DevBroker]:
    """One that may be killed."""
    with DevBroker(tmp_path / "broker") as running:
        yield running


class Replica:
    """`moneystate serve` over one folder, as often as it is started."""

    def __init__(self, setup: Setup) -> None:
        data = str(setup.folder / "replica")
        self.setup = setup
        self.flags = ["serve", "--bootstrap-servers", setup.bootstrap_servers, "--topic-prefix", setup.prefix]
        self.flags += ["--service", "enrichment", "--data", data, "--listen", "127.0.0.1:0"]

    def start(self) -> JobProcess:
        self.process = JobProcess(self.flags, self.setup.folder)
        wait_for(lambda: LISTENING.search(self.process.err()), self.process.err)
        return self.process

    def client(self) -> Client:
        match = LISTENING.search(self.process.err())
        assert match is not None
        return Client(Target(match[1]), UP_S)

    def wait_until_at(self, batch: int) -> None:
        with self.client() as client:
            wait_for(lambda: at(client) >= batch, self.process.err)


def at(client: Client) -> int:
    """The batch of the newest version; -1 before the first."""
    try:
        status = client.call("Status.GetStatus", status_pb2.GetStatusRequest())
    except grpc.RpcError:
        return -1
    return int(status.header.version.batch) if status.caught_up else -1


@pytest.mark.long
def test_answers_are_the_references_after_replica_job_and_broker_were_killed(
    own_broker: DevBroker, tmp_path: Path
) -> None:
    setup = Setup(own_broker.bootstrap_servers, "equals-", tmp_path)
    setup.create_inputs()
    log = small_workload("--events", "2500", "--flush-marker")
    parts = [log[n : n + PART_RECORDS] for n in range(0, len(log), PART_RECORDS)]
    replica = Replica(setup)
    job = run_part(setup, parts[0])
    serving = replica.start()
    try:
        replica.wait_until_at(0)
        serving.kill()
        setup.send(parts[1])
        wait_until_read(setup, job)
        serving = replica.start()
        replica.wait_until_at(1)
        job.kill()
        job = run_part(setup, parts[2])
        own_broker.kill()
        own_broker.start()
        for part in parts[3:]:
            setup.send(part)
            wait_until_read(setup, job)
        assert job.stop().code == 0
        last = Checkpoint(str(setup.checkpoint)).last_committed()
        replica.wait_until_at(last)
        with replica.client() as client:
            check_versions(client, setup, last)
        forget(replica, setup, sorted(expected(setup, last).users)[0])
        for process in (job, serving):  # what they told of the broker's end, too
            impersonal(process.err(), log)
    finally:
        job.kill()
        serving.kill()


def run_part(setup: Setup, part: list[LogRecord]) -> JobProcess:
    """A live job that has read these records."""
    setup.send(part)
    job = setup.start(*FLAGS, "--max-records-per-batch", "400", "--quiet")
    wait_until_read(setup, job)
    return job


def wait_until_read(setup: Setup, job: JobProcess) -> None:
    records, _ = setup.inputs()
    ends: dict[tuple[str, int], int] = {}
    for record in records:
        ends[record.topic, record.partition] = record.offset + 1

    def is_read() -> bool:
        checkpoint = Checkpoint(str(setup.checkpoint))
        if checkpoint.is_new() or checkpoint.last_committed() < 0:
            return False
        planned = from_offset(checkpoint.offset(checkpoint.last_committed())).partitions
        return all(tp in planned and planned[tp].end >= end for tp, end in ends.items())

    job.wait_for(is_read, "all is read")


def expected(setup: Setup, batch: int) -> model.Result:
    """What the model makes of the records up to the end of a batch."""
    planned = from_offset(Checkpoint(str(setup.checkpoint)).offset(batch)).partitions
    records, partitions = setup.inputs()
    read = [r for r in records if r.offset < planned[r.topic, r.partition].end]
    return model.run(read, partitions, RULES)


def check_versions(client: Client, setup: Setup, last: int) -> None:
    status = client.call("Status.GetStatus", status_pb2.GetStatusRequest())
    oldest, newest = status.oldest, status.header.version
    assert newest.batch == last
    pinned = sorted({oldest.batch + (last - oldest.batch) * n // 3 for n in range(4)})
    assert len(pinned) == 4
    for batch in pinned:
        want = expected(setup, batch)
        version = header_pb2.At(version=header_pb2.Version(epoch=newest.epoch, batch=batch))
        time_ms = client.call("State.List", state_pb2.ListRequest(state="user", at=version)).header.watermark_ms
        got = answers(client, version)
        assert sorted(user for user in got if any(valid(got[user], time_ms).values())) == sorted(want.users)
        for user_id, view in want.users.items():
            check_user(valid(got[user_id], time_ms), view)
    assert len(got) > 40


States = dict[str, dict[str, dict[str, Any]]]  # records by user, state and id


def answers(client: Client, version: header_pb2.At) -> States:
    users: States = {}
    for state in STATES:
        for record in listed(client, state, version):
            mine = users.setdefault(record.name.key, {name: {} for name in STATES})
            mine[state][record.name.id] = json.loads(record.json)
    return users


def valid(user: dict[str, dict[str, Any]], time_ms: int) -> dict[str, dict[str, Any]]:
    """Without sessions that money can no longer be joined to. Those that came late stay for a whole TTL."""
    return {**user, "sessions": {id: s for id, s in user["sessions"].items() if s["expiresMs"] > time_ms}}


def listed(client: Client, state: str, version: header_pb2.At) -> Iterator[state_pb2.Record]:
    request = state_pb2.ListRequest(state=state, at=version, page_size=7)
    while True:
        page = client.call("State.List", request)
        yield from page.records
        if not page.next_page_token:
            return
        request = state_pb2.ListRequest(state=state, page_size=7, page_token=page.next_page_token)


def check_user(got: dict[str, dict[str, Any]], want: model.UserView) -> None:
    user = got["user"].get("", {"info": None, "moneyTypes": []})
    assert (user["info"] or NO_INFO) == (want.user_info or NO_INFO)
    assert set(user["moneyTypes"]) == want.money_types
    assert {id: (s["country"], s["expiresMs"]) for id, s in got["sessions"].items()} == want.sessions
    assert ids(got["waiting"].values()) == sorted(p.money["id"] for p in want.waiting)
    asked = [(a["request"]["moneyId"], to_ms(a["request"]["requestedAt"])) for a in got["session_lookup"].values()]
    assert sorted(asked) == sorted((p.money["id"], p.at_ms) for p in want.looking_up)


def ids(waiting: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(held["money"]["id"] for held in waiting)


def forget(replica: Replica, setup: Setup, user_id: str) -> None:
    """Asked of the server, done by the job at its place in the log, gone from every version that is kept."""
    with replica.client() as client:
        before = at(client)
        answer = client.call("State.Forget", state_pb2.ForgetRequest(key=user_id, request_id="r-1"))
        assert answer.request.topic == "user-events"
        heartbeats(setup)
        setup.run(*FLAGS, "--until-caught-up", "--quiet")
        replica.wait_until_at(before + 1)
        proof = client.call(
            "State.Get", state_pb2.GetRequest(name=state_pb2.RecordName(state="forgotten", key=user_id))
        )
        told = json.loads(proof.records[0].json)
        assert (told["requestId"], told["offset"]) == ("r-1", answer.request.offset)
        epoch = proof.header.version.epoch
        for batch in (before, before + 1):
            version = header_pb2.At(version=header_pb2.Version(epoch=epoch, batch=batch))
            left = answers(client, version).get(user_id, {})
            assert not any(records for state, records in left.items() if state != "session_lookup")


def heartbeats(setup: Setup) -> None:
    """So that the watermark passes the request."""
    records, partitions = setup.inputs()
    newest = max(event_time_ms(record) for record in records)
    log = LogBuilder()
    for topic, partition in partitions:
        log.put(topic, model.encode("Heartbeat", {"processedAt": newest + 60_000}), partition=partition)
    setup.send(log.records)


def event_time_ms(record: LogRecord) -> int:
    """0 where it has none."""
    try:
        return int(model.decode(record.value or b"")[1].get("processedAt", 0))
    except (ValueError, KeyError):
        return 0
