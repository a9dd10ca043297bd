"""The cases of `test_advised_commands`: each provokes an error that names a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from moneystate.bootstrap.files import ArchivedRecord
from moneystate.bootstrap.inspect import FileFacts, Inspector
from moneystate.bootstrap.layout import ArchiveFile
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.cli import ask, ask_tables, connection, dead_letters, versions
from moneystate.cli.plan import check_approved
from moneystate.cli.services import load
from moneystate.engine import clock as clocks
from moneystate.engine import plan as plans
from moneystate.errors import MoneystateError
from moneystate.job import diagnosis, health, initial, startup
from moneystate.job.checkpoint import Checkpoint
from moneystate.kafka import client, findings
from moneystate.kafka.starting import resolve_start
from moneystate.kafka.transactions import Application
from moneystate.ports.service import JobSpec
from moneystate.replica.follower import MISPLACED_ADVICE
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import job_spec
from moneystate.savepoint.fingerprint import of_group
from moneystate.savepoint.format import Savepoint
from moneystate.schemas.services import check_released, findings_of, release_service
from moneystate.serving.savepoint import saved_state
from moneystate.state.v1 import state_pb2
from services.reconciliation.cli.follow import Follower
from services.reconciliation.records import Completeness
from state_tools.replay import Replay
from tests.cli.command_texts import texts_with_commands
from tests.cli.test_advice import service_file
from tests.kafka.logs import Cluster, numbered
from tests.savepoint.make import JOB, empty_savepoint

ORDERS = "examples.orders.orders:service"
NOWHERE = "127.0.0.1:1"
GROUPS = 8


@dataclass
class Place:
    """What a case works on."""

    folder: Path
    cluster: Cluster
    monkeypatch: pytest.MonkeyPatch

    def checkpoint(self, job: JobSpec, topics: dict[str, str], ends: dict[plans.TopicPartition, int]) -> Checkpoint:
        """A checkpoint with one finished batch that has read up to `ends`."""
        made = Checkpoint(str(self.folder / "checkpoint"))
        made.keep_rules(job.rules)
        made.begin(
            startup.settings_of(job.name, GROUPS, 2, job.name, self.cluster.prefix),
            {"superseded": [], "offset": plans.Plan("rules", topics, {}).to_offset()},
        )
        read = {place: plans.PartitionPlan(end, plans.ACTIVE) for place, end in ends.items()}
        offset = plans.Plan(plans.rules_hash(job.rules), topics, read).to_offset()
        made.folder.write("offsets/0", f"v1\n{{}}\n{json.dumps(offset)}".encode())
        made.folder.write("commits/0", b"v1\n{}")
        return made

    def savepoint(self) -> str:
        clock = of_group(0, [(clocks.KEY, clocks.encode(clocks.Clock()))], JOB.state, JOB.rules)
        return str(empty_savepoint(self.folder / "savepoint", GROUPS, fingerprint=str(clock)))


@dataclass
class Advice:
    """What was told, and the command in it."""

    text: str
    words: str  # as printed, after `moneystate`
    more: tuple[str, ...] = ()  # arguments of the failed command that the advice says to take over
    given: dict[str, str] = field(default_factory=dict)  # flags of the failed command
    code: int = 0
    says: str = ""  # where the environment must refuse: what it says


CASES: list[Callable[[Place], Advice]] = []


def case(provoke: Callable[[Place], Advice]) -> Callable[[Place], Advice]:
    CASES.append(provoke)
    return provoke


def told(run: Callable[[], Any]) -> str:
    with pytest.raises(MoneystateError) as refused:
        run()
    return str(refused.value)


def question(*words: str) -> ask.Question:
    fields: dict[str, Any] = dict.fromkeys(ask.Question.__dataclass_fields__)
    return ask.Question(**{**fields, "schema": SimpleNamespace(service="orders"), "words": [*words]})


RELEASE = "schemas release 'a shop/advised.py:service'"
NO_SERVER: dict[str, Any] = {"given": {"address": NOWHERE}, "code": 3, "says": f"{NOWHERE}: expected an answer"}


@case
def ask_without_a_word(place: Place) -> Advice:
    return Advice(told(lambda: ask._first(question(), "call QUERY")), "ask --help")


@case
def ask_with_too_many_words(place: Place) -> Advice:
    return Advice(told(lambda: ask._words(question("a", "b"), 1, 1, "get KEY")), "ask --help")


@case
def ask_with_an_unknown_flag(place: Place) -> Advice:
    return Advice(told(lambda: ask._check_words(["orders", "--limt"])), "ask --help")


@case
def ask_list_without_a_state(place: Place) -> Advice:
    return Advice(told(lambda: ask._list(question())), "ask orders schema", **NO_SERVER)


@case
def ask_get_of_a_key_with_maps(place: Place) -> Advice:
    text = ask._of_maps("orders", ["lines", "notes"], "a key")
    return Advice(text, "ask orders entries lines 'a key'", **NO_SERVER)


@case
def a_version_that_is_not_kept(place: Place) -> Advice:
    class Refused(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.OUT_OF_RANGE

        def details(self) -> str:
            return "version e/1 is no longer kept"

    return Advice(str(connection._told(Refused(), NOWHERE, "--address")), "ask SERVICE status", **NO_SERVER)


@case
def a_version_in_another_form(place: Place) -> Advice:
    return Advice(told(lambda: versions.parse_version("7", "--at-version")), "ask SERVICE status", **NO_SERVER)


@case
def a_key_that_is_to_be_forgotten(place: Place) -> Advice:
    lines: list[str] = []
    place.monkeypatch.setattr(ask_tables, "say", lines.append)
    ask_tables.forget("orders", "a key", state_pb2.ForgetResponse(request_id="r"))
    return Advice(lines[-1], "ask orders get 'a key' forgotten", **NO_SERVER)


def letters(place: Place) -> dict[str, Any]:
    place.cluster.create("orders-dead-letters")
    return application(place)


@case
def show_without_a_letter(place: Place) -> Advice:
    log: Any = None
    return Advice(told(lambda: dead_letters._show(log)), "dead-letters list", **letters(place))


@case
def show_of_a_letter_that_is_not_there(place: Place) -> Advice:
    log: Any = SimpleNamespace(topic="orders-dead-letters", read=lambda chosen: [])
    return Advice(told(lambda: dead_letters._show(log, ["0/1"])), "dead-letters list", **letters(place))


@case
def resend_of_a_letter_in_another_form(place: Place) -> Advice:
    return Advice(told(lambda: dead_letters._checked(["x"])), "dead-letters list", **letters(place))


def a_transaction(place: Place) -> None:
    """The brokers' log of transactions is there after the first one."""
    place.cluster.transaction(place.cluster.create("orders-commits"), numbered(0, 1))


def application(place: Place) -> dict[str, Any]:
    servers = {"bootstrap-servers": place.cluster.bootstrap_servers, "topic-prefix": place.cluster.prefix}
    return {"given": {**servers, "service": ORDERS}}


@case
def a_transaction_of_another_application(place: Place) -> Advice:
    a_transaction(place)
    mine = Application(place.cluster.bootstrap_servers, {}, "orders", place.cluster.prefix + "orders-commits")
    return Advice(told(lambda: mine._check_own(["payments-0"])), "transactions list", **application(place))


@case
def a_transaction_that_is_open_for_long(place: Place) -> Advice:
    seen: Any = SimpleNamespace(transactions=lambda: [SimpleNamespace(since_ms=0, transactional_id="orders-0")])
    a_transaction(place)
    why = "expected claims of application"  # that of no application is left in the topic
    return Advice(findings.open_findings(seen)[0].do, "transactions abort", **application(place), code=2, says=why)


@case
def no_broker(place: Place) -> Advice:
    place.monkeypatch.setattr(client, "METADATA_TIMEOUT_S", 0.2)
    text = told(lambda: client.check_reachable(NOWHERE, {}))
    return Advice(text, "kafka status", given={"data-dir": str(place.folder)}, code=3, says="not running on")


@case
def an_archive_without_headers(place: Place) -> Advice:
    times: Any = SimpleNamespace(decoder=SimpleNamespace(needs_headers=lambda topic: True))
    records = [ArchivedRecord(0, 0, 0, b"k", b"v", [], has_headers=False)]
    file = ArchiveFile("0-0.avro", 0, 0)
    text = told(lambda: Inspector(times, None)._read(Path(file.path), file, 0, records, FileFacts()))
    for topic in ("orders", "payments"):
        place.cluster.create(topic)
    given = {**application(place)["given"], "archive": str(place.folder / "archive")}
    return Advice(text, "archive", given=given)


@case
def a_plan_that_is_none(place: Place) -> Advice:
    file = place.folder / "my plan.json"
    file.write_text("[]")
    given = {**application(place)["given"], "checkpoint": str(place.folder / "checkpoint")}
    text = told(lambda: check_approved(file, []))
    return Advice(text, f"plan --save {shlex.quote(str(file))}", (ORDERS,), given)


@case
def another_program_than_before(place: Place) -> Advice:
    job = job_spec(ORDERS, {})
    checkpoint = place.checkpoint(job, {}, {})
    checkpoint.keep_rules({**job.rules, "logic": 0})
    seen: Any = SimpleNamespace(spec=job, checks=SimpleNamespace(settings=checkpoint.settings()), checkpoint=checkpoint)
    place.monkeypatch.setattr(diagnosis, "changes", lambda *_: [SimpleNamespace(
        part=next(iter(diagnosis.OF_PROGRAM)), name="logic", effect="another", refused=False
    )])  # fmt: skip
    text = diagnosis.Diagnosis._changes(seen)[0].do
    given = {**application(place)["given"], "checkpoint": str(place.folder / "other")}
    return Advice(text, "plan", (ORDERS,), given)


@case
def a_new_changelog_of_the_same_name(place: Place) -> Advice:
    text = told(lambda: startup._check_same_changelog("orders-state", {startup.CHANGELOG_ID: "a"}, {}))
    folder = str(place.folder / "checkpoint")
    given = {**application(place)["given"], "checkpoint": folder, "new-checkpoint": str(place.folder / "new")}
    return Advice(text, "rescale", given=given, code=4, says=f"{folder}: expected a checkpoint")


def exported(place: Place, **more: str) -> dict[str, Any]:
    return {"given": {"checkpoint": place.savepoint(), "out": str(place.folder / "exported"), **more}}


@case
def a_savepoint_with_other_key_groups(place: Place) -> Advice:
    given = exported(place)
    manifest = Savepoint(Path(given["given"]["checkpoint"])).manifest
    text = told(lambda: initial.check_fits(manifest, JOB.name, 16, JOB.rules, JOB.streams))
    return Advice(text, "checkpoint export --key-groups 16", **given)


@case
def a_savepoint_without_a_position(place: Place) -> Advice:
    given = exported(place, **{"bootstrap-servers": place.cluster.bootstrap_servers})
    return Advice(told(lambda: saved_state(given["given"]["checkpoint"])), "checkpoint export", **given)


@case
def misplaced_entries(place: Place) -> Advice:
    return Advice(MISPLACED_ADVICE, "checkpoint export", **exported(place))


@case
def records_that_are_gone(place: Place) -> Advice:
    job, prefix = job_spec(ORDERS, {}), place.cluster.prefix
    topics = {topic.name: place.cluster.create(topic.name) for topic in job.inputs}
    place.cluster.send(topics["orders"], numbered(0, 10))
    place.cluster.delete_before(topics["orders"], 5)
    start = resolve_start(place.cluster.admin, "earliest", prefix, job.inputs)
    read = {(topic, 0): 10 if topic == "orders" else 0 for topic in topics}
    checkpoint = place.checkpoint(job, dict(start.topic_ids), read)
    options = BootstrapOptions(sources=[], out=place.folder / "out", bootstrap_servers=place.cluster.bootstrap_servers)
    text = told(Replay(job, checkpoint, options, 1).check)
    words = f"checkpoint compare {checkpoint.root} SAVEPOINT"
    why = f"{place.folder / 'savepoint'}: expected the state of {ORDERS}"  # the savepoint here is of the enrichment
    return Advice(text, words, given={"service": ORDERS}, code=4, says=why)


@case
def no_topic_of_reconciliation(place: Place) -> Advice:
    topic = f"{place.cluster.prefix}completeness"
    text = told(lambda: Follower(place.cluster.bootstrap_servers, {}, topic, Completeness))
    place.monkeypatch.setattr(client, "METADATA_TIMEOUT_S", 0.2)
    (place.folder / "pairs.toml").write_text(PAIR)
    given = {"config": str(place.folder / "pairs.toml")}
    given |= {"bootstrap-servers": NOWHERE, "checkpoint": str(place.folder / "checkpoint")}
    return Advice(text, "run reconciliation", given=given, code=3, says=f"{NOWHERE}: expected a Kafka broker")


PAIR = """
[[reconciliation.pairs]]
name = "shop-lake"
expected = { store = "shop", role = "PRODUCER_EXPECTED" }
actual = { store = "lake", role = "ACTUAL" }
n = "1m"
m = "15m"
o = "5m"
"""


def shop(place: Place, text: str = "") -> str:
    place.monkeypatch.chdir(place.folder)
    folder = place.folder / "a shop"
    folder.mkdir()
    service = service_file(folder)
    if text:
        (folder / "advised.py").write_text(text)
    return service


@case
def records_that_are_not_released(place: Place) -> Advice:
    service = shop(place)
    return Advice(told(lambda: check_released(load(service))), RELEASE)


@case
def a_record_that_is_not_as_released(place: Place) -> Advice:
    service = load(shop(place))
    release_service(service)
    schema = next((folder_of(service) / "state").rglob("*.avsc"))
    schema.unlink()
    different = [one for one in findings_of(service) if one.rule == "not as released"]
    return Advice(different[0].fix, RELEASE)


@case
def json_that_is_not_noted(place: Place) -> Advice:
    service = load(shop(place, WITH_JSON))
    release_service(service)
    file = folder_of(service) / "released.json"
    notes = json.loads(file.read_text())
    for entry in notes.values():
        for version in entry["versions"].values():
            version.pop("json", None)
    file.write_text(json.dumps(notes))
    (noted,) = [one for one in findings_of(service) if one.rule == "JSON not noted"]
    return Advice(noted.fix, RELEASE)


WITH_JSON = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Put:
    id: str
    at: ms.Millis
    note: ms.Json


service = ms.Service("noted")
puts = service.input("puts", Put, key="id", time="at")


@service.on(puts)
def put(ctx: ms.Context[None], e: Put) -> None: ...
"""


@case
def a_watermark_that_stands(place: Place) -> Advice:
    place.monkeypatch.setattr(client, "METADATA_TIMEOUT_S", 0.2)
    given = {"bootstrap-servers": NOWHERE, "topics": "orders"}
    return Advice(health.ADVICE, "heartbeat", given=given, code=3, says=f"{NOWHERE}: expected a Kafka broker")


def of_apply(place: Place, words: str, *more: str, **must: Any) -> Advice:
    """The errors are about tables of a database, which is away here: the texts are those of the sources."""
    texts = [text for where, text in texts_with_commands() if where.startswith("moneystate/apply/")]
    (place.folder / "apply.toml").write_text(TARGETS.format(place.cluster.bootstrap_servers))
    place.monkeypatch.setenv("DSN", "host=127.0.0.1 port=1")
    given = {"config": str(place.folder / "apply.toml")}
    return Advice("\n".join(text for text in texts if f"moneystate {words}" in text), words, more, given, **must)


TARGETS = """
application = "shop"
bootstrap-servers = "{}"
dsn-env = "DSN"

[state.orders]
service = "examples.orders.orders:service"
schema = "shop"
"""


@case
def tables_that_are_missing(place: Place) -> Advice:
    return of_apply(place, "apply ddl")


@case
def columns_that_are_missing(place: Place) -> Advice:
    return of_apply(place, "apply ddl --diff", code=2, says="the database: expected an answer")


@case
def tables_that_cannot_go_on(place: Place) -> Advice:
    return of_apply(place, "apply rebuild", "orders", code=2, says="the database: expected an answer")


@case
def a_table_without_a_first_load(place: Place) -> Advice:
    """The command cannot know where the rows are."""
    texts = [text for _, text in texts_with_commands() if "(moneystate table load)" in text]
    given = {"bootstrap-servers": NOWHERE, "topic": "prices"}
    return Advice("\n".join(texts), "table load", given=given, code=2, says="expected a file, or --sql")
