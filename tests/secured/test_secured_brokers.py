"""All commands against a broker with TLS, SASL and ACLs: with the permissions that docs/security.md lists, and no more.

Their secrets stand in files and variables, and nowhere else. All that is needed beyond the plain tests' broker comes
with `make env`: certificates are made by trustme, tokens signed by PyJWT.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from moneystate.serving.client import Client, Target
from moneystate.state.v1 import state_pb2, status_pb2
from services.enrichment.fake_service import FakeSessionService, Knowledge
from tests.job.harness import ENRICHED, LOOKUP_RESULTS, Finished, JobProcess, Setup, small_workload
from tests.kafka.logs import Cluster
from tests.log_lines import ids, impersonal, kinds
from tests.reference import model
from tests.secured.acls import APPLICATION, grant, permissions
from tests.secured.broker import OAUTH, SCRAM, Secured
from tests.telemetry.receivers import Receiver

COMMANDS = ("run", "lookup-worker", "serve", "archive", "bootstrap", "verify-replay")
WORD, FLAG = ("enrichment",), ("--service", "enrichment")
# How each of them names the service
SERVICE = {"run": WORD, "lookup-worker": WORD, "serve": FLAG, "archive": FLAG, "bootstrap": FLAG}
STRANGER = "stranger"  # known to the broker, and allowed nothing
LIBRDKAFKA = '"logger": "librdkafka"'
LISTENING = re.compile(r"listening on (\S+) \(")
PAGE = "docs/security.md"
LOOKUPS = ("--session-lookup", "topic")
OTHERS = ("session-lookup-requests", LOOKUP_RESULTS, ENRICHED, "money-enrichment-dead-letters")
COMPACTED = ("money-enrichment-state", "money-enrichment-commits")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secrets = {name: f"secret-{uuid.uuid4().hex}" for name in (*COMMANDS, STRANGER)}
    with Secured(tmp_path_factory.mktemp("secured"), secrets).running() as running:
        yield running


@pytest.fixture
def setup(secured: Secured, topic_prefix: str, tmp_path: Path) -> Setup:
    """With all topics there."""
    (tmp_path / "job").mkdir()
    setup = Setup(secured.bootstrap_servers, topic_prefix, tmp_path / "job")
    setup.create_inputs()
    cluster = Cluster(secured.bootstrap_servers, topic_prefix)
    for name in OTHERS:
        cluster.create(name, setup.partitions)
    for name in COMPACTED:
        cluster.create(name, setup.partitions, cleanup_policy="compact")
    return setup


class Commands:
    """Each runs as the principal of its own name, or as `principal`."""

    def __init__(self, secured: Secured, setup: Setup, mechanism: str, principal: str = "") -> None:
        self.secured = secured
        self.setup = setup
        self.mechanism = mechanism
        self.principal = principal

    def start(self, command: str, *arguments: str) -> JobProcess:
        principal = self.principal or command
        flags = self.secured.flags(self.mechanism, principal)
        return JobProcess(
            [command, *SERVICE.get(command, ()), *flags, *arguments], self.setup.folder, self.secured.env(principal)
        )

    def run(self, command: str, *arguments: str) -> Finished:
        with self.start(command, *arguments) as process:
            done = process.finish()
        assert done.code == 0, done.err
        return done

    def job(self, *more: str) -> tuple[str, ...]:
        """Arguments of `run enrichment`; Spark writes all that it knows of the run into its event log."""
        log = self.setup.folder / "spark-events"
        log.mkdir(exist_ok=True)
        spark = ("enabled=true", f"dir={log.as_uri()}", "compress=false")
        config = [part for setting in spark for part in ("--spark-config", f"spark.eventLog.{setting}")]
        whole = self.setup.arguments("--no-create-topics", *config, *LOOKUPS, *more)
        own = (*whole[2:], "--application-id", self.setup.prefix + APPLICATION)
        return tuple(own[own.index("--topic-prefix") :])  # without the plain listener

    def topics(self) -> tuple[str, str]:
        return ("--topic-prefix", self.setup.prefix)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


def address(server: JobProcess) -> str:
    server.wait_for(lambda: LISTENING.search(server.err()) is not None, "listening")
    match = LISTENING.search(server.err())
    assert match is not None
    return match[1]


def ask(server: JobProcess) -> None:
    """A replica that has all of the state answers, and writes the wish to forget a user to the log."""
    with Client(Target(address(server)), 60.0) as client:
        server.wait_for(
            lambda: bool(client.call("Status.GetStatus", status_pb2.GetStatusRequest()).caught_up), "caught up"
        )
        answer = client.call("State.Forget", state_pb2.ForgetRequest(key="somebody"))
        assert answer.request.topic == "user-events"


def test_a_job_and_its_worker_run_with_what_their_page_says(secured: Secured, setup: Setup, receiver: Receiver) -> None:
    run_job(Commands(secured, setup, SCRAM), receiver)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [SCRAM, OAUTH])
def test_every_command_runs_with_what_its_page_says(
    secured: Secured, setup: Setup, mechanism: str, receiver: Receiver
) -> None:
    commands = Commands(secured, setup, mechanism)
    run_job(commands, receiver)
    archive, savepoint = setup.folder / "archive", setup.folder / "savepoint"
    verify = ("--checkpoint", str(setup.checkpoint), "--quiet")
    commands.run("verify-replay", *verify)
    commands.run("archive", *commands.topics(), "--archive", str(archive), "--quiet")
    made = ("--from", "kafka", "--out", str(savepoint), "--key-groups", "8", "--partitions", "2", "--quiet")
    commands.run("bootstrap", *commands.topics(), *LOOKUPS, *made)
    listen = ("--data", str(setup.folder / "replica"), "--listen", "127.0.0.1:0")
    with commands.start("serve", *commands.topics(), *listen, "--log-level", "debug") as server:
        ask(server)
        told = server.stop()
    assert told.code == 0
    impersonal(told.err, setup.inputs()[0])
    assert_nowhere(secured, setup.folder)


def run_job(commands: Commands, receiver: Receiver) -> None:
    """The enrichment to its end with a lookup worker. What they tell others has no secret and no id."""
    secured, setup = commands.secured, commands.setup
    grant(setup.admin(), setup.prefix, permissions())
    setup.send(small_workload("--events", "400", "--unknown-sessions", "0.05", "--flush-marker"))
    with ExitStack() as running:
        service = running.enter_context(FakeSessionService(Knowledge(1)))
        debug = ("--log-level", "debug")
        worker = commands.start("lookup-worker", *commands.topics(), *debug, "--url", service.url)
        running.enter_context(worker)
        watched = (*debug, "--openlineage", "--openlineage-interval", "0s", "--traces")
        job = running.enter_context(commands.start("run", *commands.job("--until-caught-up", "--drain"), *watched))
        done = job.finish()
        assert done.code == 0, done.err
        told = worker.stop()
        assert told.code == 0
        for lines in (done, told):
            impersonal(lines.err, setup.inputs()[0])
    assert receiver.events()[-1]["eventType"] == "COMPLETE"
    assert receiver.spans()
    private = {*secured.secrets.values(), *ids(setup.inputs()[0])}
    assert [text for text in private for _, body in receiver.bodies if text.encode() in body] == []
    assert setup.check_lookups() == 0
    assert len(setup.read(LOOKUP_RESULTS)) > 0
    assert_nowhere(secured, setup.folder)


def test_doctor_tells_what_a_user_may_not_do(secured: Secured, setup: Setup) -> None:
    grant(setup.admin(), setup.prefix, permissions())

    def found(principal: str) -> tuple[int, dict[str, str]]:
        checkpoint = ("--checkpoint", str(setup.checkpoint), "--application-id", setup.prefix + APPLICATION)
        flags = ("--no-create-topics", "--json", "--partitions", str(setup.partitions), *checkpoint)
        commands = Commands(secured, setup, SCRAM, principal)
        with commands.start("doctor", "enrichment", *commands.topics(), *flags) as process:
            done = process.finish()
        findings = json.loads(done.out)["money-enrichment"]
        return done.code, {one["about"]: one["level"] for one in findings if one["level"] != "ok"}

    reads_no_settings = {"brokers": "warning"}
    no_log_of_transactions = {"clock": "warning", "open transactions": "warning"}
    assert found("run") == (0, {**reads_no_settings, **no_log_of_transactions})
    code, others = found("archive")  # it may read the inputs, and nothing else
    assert code == 1
    assert (others["topics"], others["transactions"]) == ("error", "error")
    assert others[f"topic {setup.prefix}wallet-events"] == "warning"


def assert_nowhere(secured: Secured, folder: Path) -> None:
    """No file that a command made has a secret: checkpoint, logs, Spark's events, what was printed."""
    names = subprocess.run(["find", str(folder), "-type", "f"], capture_output=True, text=True, check=True)
    files = [Path(name) for name in names.stdout.splitlines()]
    assert any("spark-events" in path.parts and path.stat().st_size > 0 for path in files)
    leaks = [
        (path, name)
        for path in files
        for name, secret in secured.secrets.items()
        if secret.encode() in path.read_bytes()
    ]
    assert leaks == []


@pytest.mark.parametrize("command", ["run", "lookup-worker", "archive", "bootstrap"])
def test_a_command_without_permissions_says_so_in_one_line(
    secured: Secured, setup: Setup, tmp_path: Path, command: str
) -> None:
    commands = Commands(secured, setup, SCRAM, STRANGER)
    arguments = {
        "run": commands.job("--until-caught-up"),
        "lookup-worker": (
            *commands.topics(),
            "--no-create-topics",
            "--url",
            "http://127.0.0.1:1",
        ),
        "archive": (*commands.topics(), "--archive", str(tmp_path / "archive")),
        "bootstrap": (*commands.topics(), "--from", "kafka", "--out", str(tmp_path / "savepoint")),
    }[command]
    assert_denied(commands, command, arguments)


def test_a_replica_without_permissions_says_so_and_waits(secured: Secured, setup: Setup, tmp_path: Path) -> None:
    commands = Commands(secured, setup, SCRAM)
    listen = ("--data", str(tmp_path / "replica"), "--listen", "127.0.0.1:0")
    with commands.start("serve", *commands.topics(), *listen) as server:
        server.wait_for(lambda: "the replica waits: " in server.err() and PAGE in server.err(), "what it waits for")
        assert server.stop().code == 0


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("topic", model.WALLET),
        ("topic", ENRICHED),
        ("topic", "money-enrichment-commits"),
        ("transactional id", "APPLICATION-ID-*"),
    ],
)
def test_a_job_that_lacks_one_permission_names_it(secured: Secured, setup: Setup, resource: str, name: str) -> None:
    lacking = [p for p in permissions() if (p.command, p.resource, p.name) != ("run", resource, name)]
    assert len(lacking) < len(permissions())
    grant(setup.admin(), setup.prefix, lacking)
    commands = Commands(secured, setup, SCRAM)
    assert_denied(commands, "run", commands.job("--until-caught-up"))


@pytest.mark.parametrize("mechanism", [SCRAM, pytest.param(OAUTH, marks=pytest.mark.long)])
def test_a_wrong_secret_is_told_as_such_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, secured: Secured, setup: Setup, mechanism: str
) -> None:
    commands = Commands(secured, setup, mechanism)
    wrong = f"wrong-{uuid.uuid4().hex}"
    monkeypatch.setitem(secured.secrets, "archive", wrong)  # what the command gives
    with commands.start("archive", *commands.topics(), "--archive", str(setup.folder / "archive")) as process:
        done = process.finish()
    assert done.code == 3, done.err
    assert kinds(done.err) == ["error:"]
    assert "expected to be let in" in done.err
    assert PAGE in done.err
    assert wrong not in done.err


def assert_denied(commands: Commands, command: str, arguments: tuple[str, ...]) -> None:
    """One line of the command's own; of a producer that may not be one, librdkafka tells, too."""
    with commands.start(command, *arguments) as process:
        done = process.finish()
    assert done.code == 3, (done.code, done.err)
    own = [line for line in done.err.splitlines() if not line.startswith("%") and LIBRDKAFKA not in line]
    assert [kind for line in own for kind in kinds(line) if kind == "error:"] == ["error:"], done.err
    assert PAGE in own[-1]
