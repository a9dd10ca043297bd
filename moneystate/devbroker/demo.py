"""Plays a service's demo: sends the records of a story through its own broker and a real job, and shows the outputs.

held = demo.play("joining", TABLES, STEPS, ["joined"], line)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import moneystate
from moneystate.devbroker.broker import DevBroker
from moneystate.errors import BrokerError, JobError
from moneystate.log import text_of

FLUSH_S: Final = 30.0
RUN_S: Final = 170.0
READ_S: Final = 30.0
REASON: Final = "moneystate.reason"  # header of a dead letter
SEE: Final = "run the demo again."
FOREIGN: Final = ("MONEYSTATE_", "SPARK_", "PYSPARK_")  # the user's variables with these prefixes are ignored


class Sent(NamedTuple):
    """A JSON record of the story."""

    at_s: float  # seconds since the story's start
    topic: str
    record: dict[str, Any]
    told: str  # how the demo describes it


class Came(NamedTuple):
    """A record of an output topic."""

    topic: str
    key: str
    value: dict[str, Any] | None  # None: a tombstone, or a dead letter, whose value is not read
    reason: str = ""  # why it is a dead letter; empty: it is none


@dataclass(frozen=True)
class Step:
    """A step of the story."""

    title: str
    key: str
    sent: tuple[Sent, ...]
    promised: tuple[str, ...]  # lines that must come out under `key`, over all outputs, in the order of the outputs
    told: tuple[str, ...] = ()  # how the demo describes what it does besides sending records


@contextmanager
def stage(err: Console, heap: str = "256m") -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a broker of its own, until the end of the block. Raises SetupError and
    BrokerError."""
    with ending_in_order(), tempfile.TemporaryDirectory(prefix="moneystate-demo-") as name:
        folder = Path(name)
        broker = DevBroker(folder / "kafka", heap=heap, progress=lambda text: err.print(Text(text)))
        err.print("starting Kafka, a broker of its own on a free port ...")
        try:
            broker.start()
            yield folder, broker.bootstrap_servers
        finally:
            broker.stop()


def play(
    name: str, tables: str, steps: Sequence[Step], outputs: Sequence[str], line: Callable[[Came], str],
    flags: Sequence[str] = ("--bound", "5s"), write: Callable[[str, Path], None] | None = None,
    key: Callable[[Came], str] = lambda came: came.key,
) -> bool:  # fmt: skip
    """Shows the story, and returns whether all outputs were as promised. `tables`: content of the configuration file;
    `write`: fills the topics of the broker with this address, in place of the records of the steps, and may use the
    folder; `key`: the step's key of an output. Raises SetupError, BrokerError or JobError. It always cleans up the
    broker and the run."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    out.print(f"[bold]{_stories(len(steps))}[/] through a real broker and the real job, configured as:")
    out.print(Text(tables.strip() + "\n", "dim"))
    with stage(err) as (folder, servers):
        if write is None:
            _send(servers, [(step.key, sent) for step in steps for sent in step.sent])
        else:
            write(servers, folder)
        err.print(f"moneystate run {name}: to the end of the stories ...")
        run_job(name, tables, servers, folder, [*flags, "--drain"])
        came = [record for topic in outputs for record in read_all(servers, topic)]
    return _show(out, steps, came, line, key)


def _show(
    out: Console, steps: Sequence[Step], came: list[Came], line: Callable[[Came], str], key: Callable[[Came], str]
) -> bool:
    table = Table(box=box.SIMPLE_HEAD, show_lines=False, pad_edge=False)
    for title in ("Sent", "Came out", "Promise"):
        table.add_column(title, no_wrap=title == "Promise")
    held = True
    for step in steps:
        lines = tuple(line(record) for record in came if key(record) == step.key)
        as_promised = lines == step.promised
        held = held and as_promised
        told = [Text(step.title, "bold"), *[Text(f"{sent.at_s:>5g} s  {sent.told}") for sent in step.sent]]
        told += [Text(f"  {text}") for text in step.told]
        verdict = Text("held", "bold green") if as_promised else Text("BROKEN", "bold white on red")
        shown = lines if as_promised else (*lines, "", "promised:", *step.promised)
        table.add_row(Text("\n").join(told), Text("\n".join(["", *shown])), verdict)
        table.add_section()
    out.print(table)
    out.print(f"{_stories(len(steps))} held." if held else "[bold white on red]A promise was broken.[/]")
    return held


def _stories(number: int) -> str:
    return "1 story" if number == 1 else f"{number} stories"


def _send(servers: str, sent: list[tuple[str, Sent]]) -> None:
    """Sends the records in the order of the story's time, into one partition of each topic. A record has its step's
    key, because a dead letter has the key of its record."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = sorted({s.topic for _, s in sent})
    new = [NewTopic(topic, 1, 1, config={"retention.ms": "-1"}) for topic in topics]  # the times are years ago
    for future in admin.create_topics(new).values():
        future.result()
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "enable.idempotence": True})
    for key, s in sorted(sent, key=lambda one: one[1].at_s):
        producer.produce(s.topic, json.dumps(s.record).encode(), key, partition=0)
    if producer.flush(FLUSH_S):
        raise BrokerError(
            "expected to send the demo's records, but the broker did not take them.", "run the demo again."
        )


def run_job(
    name: str, tables: str, servers: str, folder: Path, flags: Sequence[str], limit_s: float = RUN_S
) -> None:  # fmt: skip
    """Runs the job until it has caught up. Raises JobError."""
    config, log = folder / "demo.toml", folder / "log"
    config.write_text(tables)
    command = [
        *(sys.executable, "-m", "moneystate.cli.main", "run", name, "--config", str(config), *flags),
        *("--bootstrap-servers", servers, "--checkpoint", str(folder / "checkpoint"), "--until-caught-up"),
        *("--partitions", "2", "--topic-partitions", "1", "--key-groups", "4", "--quiet", "--local"),
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            cwd=folder,
            env=environment(folder),
            start_new_session=True,  # Ctrl-C in the terminal only reaches the demo, which then ends the job
        )
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise JobError(f"moneystate run {name}: expected to end within {limit_s:.0f} s.", SEE) from None
    finally:
        kill_with_children(process)
    if code != 0:
        last = next((text for text in reversed(log.read_text(errors="replace").splitlines()) if text.strip()), "")
        raise JobError(f"moneystate run {name}: expected exit code 0, found {code}: {text_of(last.strip())}", SEE)


def environment(folder: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    root = str(Path(moneystate.__file__).parent.parent)
    path = os.pathsep.join(p for p in (root, inherited.get("PYTHONPATH")) if p)
    spark = {"SPARK_LOCAL_DIRS": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**inherited, **spark, "TMPDIR": str(folder), "PYTHONPATH": path}


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kills the job with Spark's JVM and Python workers, some of which have their own process group."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.kill()
    process.wait()
    for child in family:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, FLUSH_S)


def read_all(servers: str, topic: str) -> Iterator[Came]:
    """All committed records of a topic; a timed stream has a partition for each writer."""
    settings = {"group.id": "moneystate-demo", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": servers, "log_level": 0, **settings})
    try:
        partitions = set(consumer.list_topics(topic, READ_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        while partitions:
            message: Message | None = consumer.poll(READ_S)
            error = None if message is None else message.error()
            if message is not None and error is not None and error.code() == KafkaError._PARTITION_EOF:
                partitions.discard(message.partition())  # again where a topic has grown meanwhile
                continue
            if message is None or error is not None:
                raise BrokerError(f"expected to read {topic}, found {error or 'nothing'}.", SEE)
            yield _came(topic, message)
    except KafkaException as e:
        raise BrokerError(f"expected to read {topic}, but {e}.", SEE) from None
    finally:
        consumer.close()


def _came(topic: str, message: Message) -> Came:
    headers = dict(message.headers() or [])
    key, value, reason = (message.key() or b"").decode(), message.value(), headers.get(REASON)
    if reason is not None:
        return Came(topic, key, None, reason.decode() if isinstance(reason, bytes) else reason)
    return Came(topic, key, None if value is None else json.loads(value))


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP end the demo as Ctrl-C does, with everything that it started."""

    def end(number: int, _frame: object) -> None:
        for other in (signal.SIGINT, *before):
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
