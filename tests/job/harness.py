"""The real job as a process of its own: started, watched, stopped, killed; its output held to the model."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil
from confluent_kafka.admin import AdminClient

from moneystate.kafka.client import new_client
from tests.job.warm import MONEYSTATE, ROOT, Warm
from tests.kafka.logs import Cluster, new_consumer, wait_until_stable
from tests.log_lines import kinds
from tests.reference import kafka_log, model
from tests.workloads.workload_log import send_log, workload_log

POLL_S = 0.05
RUN_S = 240.0  # a bounded run of a small workload takes 15 to 30 s on two free cores; past this it hangs
ENRICHED, DEAD_LETTERS = "money-enriched-events", "money-enrichment-dead-letters"
LOOKUP_RESULTS = "session-lookup-results"
WARM = Warm()


class Finished(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def totals(self) -> dict[str, Any]:
        """What `--json` printed."""
        totals: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return totals


class JobProcess:
    """`moneystate ARGUMENTS` in a session of its own, which is how every process of its tree is found again.

    Its folder takes what it prints and its temporary files. Leaving the `with` block kills what still runs.
    """

    def __init__(
        self, arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, command: Sequence[str] = ()
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder, prefix="run-"))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MONEYSTATE_")}
        sources = str(ROOT)
        local = {"PYTHONPATH": sources, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(self.folder)}
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [*(command or (sys.executable, "-m", "moneystate.cli.main")), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.folder,
                env={**inherited, **local, **(env or {})},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.kill()

    def out(self) -> str:
        return (self.folder / "out").read_text(errors="replace")

    def err(self) -> str:
        return (self.folder / "err").read_text(errors="replace")

    def tree(self) -> list[psutil.Process]:
        return processes_of(self.process.pid)

    def kill(self) -> None:
        """SIGKILL for the whole tree, as if the machine went down; returns when all are gone."""
        kill_session(self.process.pid)
        self.process.wait(RUN_S)

    def stop(self) -> Finished:
        """SIGTERM, and wait for the end."""
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def interrupt(self) -> Finished:
        """As ctrl-C in a terminal: SIGINT for the whole foreground group, and wait for the end."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.finish()

    def stop_group(self) -> Finished:
        """As `timeout` does it: SIGTERM for the whole group, and wait for the end."""
        os.killpg(self.process.pid, signal.SIGTERM)
        return self.finish()

    def stop_all(self) -> Finished:
        """As systemd does it: SIGTERM for every process, also those in groups of their own, and wait for the end."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        return self.finish()

    def finish(self, deadline_s: float = RUN_S) -> Finished:
        """Wait for the end of the run by itself. Raises AssertionError where it does not come."""
        try:
            self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {deadline_s} s:\n{self.err()}") from None
        return Finished(self.process.returncode, self.out(), self.err())

    def wait_for(self, condition: Callable[[], bool], description: str, deadline_s: float = RUN_S) -> None:
        """Until `condition` holds. Raises AssertionError past the deadline or where the process ends before."""
        deadline = time.monotonic() + deadline_s
        while not condition():
            try:
                code = self.process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                code = None
            assert code is None, f"ended with code {code} before {description}:\n{self.err()}"
            assert time.monotonic() < deadline, f"not within {deadline_s} s: {description}\n{self.err()}"


def processes_of(session: int) -> list[psutil.Process]:
    """All processes of a session: children that lost their parent or made a group of their own, too."""
    processes = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return processes


def kill_session(session: int) -> None:
    """SIGKILL for all its processes; returns when they are gone."""
    while processes := processes_of(session):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs([p for p in processes if p.pid != session], timeout=RUN_S)


def moneystate(arguments: Iterable[object], folder: Path, warm: Warm = WARM) -> Finished:
    """One command to its end, which has to be a good one, in the process that stays."""
    done = finished(arguments, folder, warm)
    assert done.code == 0, done.out + done.err
    return done


def finished(
    arguments: Iterable[object],
    folder: Path,
    warm: Warm = WARM,
    deadline_s: float = RUN_S,
    module: str = MONEYSTATE,
) -> Finished:
    """One command to its end, in the process that stays: `main` of the module."""
    within = Path(tempfile.mkdtemp(dir=folder, prefix="run-"))
    code: int | None
    try:
        code = warm.run([str(argument) for argument in arguments], within, deadline_s, module)
    except TimeoutError:
        code = None
    out, err = ((within / name).read_text(errors="replace") for name in ("out", "err"))
    assert code is not None, f"no end within {deadline_s} s:\n{err}"
    return Finished(code, out, err)


class Setup(NamedTuple):
    """What the jobs of one test share: a broker, a topic prefix and a folder."""

    bootstrap_servers: str
    prefix: str
    folder: Path
    partitions: int = 2

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def arguments(self, *more: str) -> list[str]:
        """Flags of the enrichment that are the same for all its runs, then `more`."""
        return [
            "run",
            "enrichment",
            *("--bootstrap-servers", self.bootstrap_servers, "--topic-prefix", self.prefix),
            *("--checkpoint", str(self.checkpoint), "--partitions", str(self.partitions), "--key-groups", "8"),
            *("--topic-partitions", str(self.partitions), *more),
        ]

    def start(self, *more: str, pause_at: str = "") -> JobProcess:
        """`pause_at`: `step@batch` at which it writes the file `paused` and waits (`moneystate.kafka.failpoints`)."""
        env = {"MONEYSTATE_PAUSE_AT": pause_at, "MONEYSTATE_PAUSE_FILE": str(self.folder / "paused")}
        return JobProcess(self.arguments(*more), self.folder, env if pause_at else None)

    def run(self, *more: str) -> Finished:
        """One run to its end, which has to be a good one."""
        return moneystate(self.arguments(*more), self.folder)

    def refused(self, *more: str, deadline_s: float = RUN_S) -> Finished:
        """One run that has to be refused with one line on stderr."""
        done = finished(self.arguments(*more), self.folder, deadline_s=deadline_s)
        assert done.code not in (0, 1), done.err
        assert kinds(done.err) == ["error:"], done.err
        assert done.out == ""
        return done

    def kill_at(self, step: str, *more: str) -> None:
        """Start, wait until it has come to `step` (`step@batch`), and kill it all."""
        paused = self.folder / "paused"
        paused.unlink(missing_ok=True)
        with self.start(*more, pause_at=step) as job:
            job.wait_for(paused.exists, step)

    def admin(self) -> AdminClient:
        return new_client(AdminClient, {"bootstrap.servers": self.bootstrap_servers})

    def topics(self) -> set[str]:
        """The topics of this prefix, without it."""
        return {name.removeprefix(self.prefix) for name in Cluster(self.bootstrap_servers, self.prefix).names()}

    def create_inputs(self, partitions: int | None = None) -> None:
        cluster = Cluster(self.bootstrap_servers, self.prefix)
        for topic in model.TIMED_TOPICS:
            cluster.create(topic, partitions or self.partitions)

    def send(self, records: Iterable[model.LogRecord]) -> None:
        send_log(records, self.bootstrap_servers, self.prefix)

    def read(self, *topics: str) -> list[model.LogRecord]:
        return kafka_log.read_log(self.bootstrap_servers, topics, self.prefix, make=new_consumer)[0]

    def inputs(self) -> tuple[list[model.LogRecord], list[model.Partition]]:
        """The input topics as they are now, and their partitions."""
        return kafka_log.read_log(self.bootstrap_servers, model.TIMED_TOPICS, self.prefix, make=new_consumer)

    def enriched(self) -> list[bytes | None]:
        """The committed values of the output topic."""
        return [record.value for record in self.read(ENRICHED)]

    def enriched_with_lineage(self) -> Counter[tuple[bytes | None, tuple[tuple[str, bytes | None], ...]]]:
        """The committed records: values and headers."""
        return Counter((record.value, record.headers) for record in self.read(ENRICHED))

    def reference(self, rules: model.Rules, drain: bool) -> model.Result:
        """What the model makes of the input topics as they are now."""
        records, partitions = self.inputs()
        return model.run(records, partitions, rules, drain)

    def check_output(self, rules: model.Rules, drain: bool) -> model.Result:
        """All output is the model's: values of each user in order, and the dead letters by where they came from."""
        want = self.reference(rules, drain)
        wait_until_stable(self.admin(), [self.prefix + topic for topic in (ENRICHED, DEAD_LETTERS)])
        assert values_by_user(self.read(ENRICHED)) == model_values_by_user(want)
        assert letters(self.read(DEAD_LETTERS), self.prefix) == Counter(tuple(letter) for letter in want.dead_letters)
        return want

    def check_lookups(self, copies: int = 1) -> int:
        """The output is the model's with the replies of this moment, so many times over, each user's in any order; how
        many lookups the model has open."""
        wait_until_stable(self.admin(), [self.prefix + topic for topic in (ENRICHED, LOOKUP_RESULTS)])
        records, partitions = self.inputs()
        want = model.run(records, partitions, model.Rules(), True, self.read(LOOKUP_RESULTS))
        got = values_by_user(self.read(ENRICHED))
        assert {user: sorted(v or b"" for v in values) for user, values in got.items()} == {
            user: sorted(values * copies) for user, values in model_values_by_user(want).items()
        }
        return want.looking_up


def small_workload(*flags: str) -> list[model.LogRecord]:
    """Some thousand records with all that the generator has to offer, ties included."""
    return workload_log(
        *("--partitions", "2", "--users", "60", "--seed", "11", "--round-ms", "50", "--late", "0.02"),
        *("--odd", "0.02", "--future", "0.01", "--repeat-sessions", "0.2", "--foreign-sessions", "0.05"),
        *("--duplicates", "0.05", "--garbage", "0.01", *flags),
    )[0]


def in_parts(log: list[model.LogRecord], parts: int) -> list[list[model.LogRecord]]:
    """All of the log, in so many parts of about one length."""
    return [log[n * len(log) // parts : (n + 1) * len(log) // parts] for n in range(parts)]


def values_by_user(records: Iterable[model.LogRecord]) -> dict[str, list[bytes | None]]:
    values: dict[str, list[bytes | None]] = {}
    for record in records:
        values.setdefault((record.key or b"").decode(), []).append(record.value)
    return values


def model_values_by_user(result: model.Result) -> dict[str, list[bytes]]:
    values: dict[str, list[bytes]] = {}
    for enriched in result.enriched:
        values.setdefault(enriched.user_id, []).append(enriched.encoded)
    return values


def letters(records: Iterable[model.LogRecord], prefix: str) -> Counter[tuple[str, int, int, str]]:
    """Dead letters as topic without prefix, partition, offset and reason."""
    counts: Counter[tuple[str, int, int, str]] = Counter()
    for record in records:
        about = {name.removeprefix("moneystate."): (content or b"").decode() for name, content in record.headers}
        place = (about["topic"].removeprefix(prefix), int(about["partition"]), int(about["offset"]))
        counts[(*place, about["reason"])] += 1
    return counts


def counts(result: model.Result) -> dict[str, Any]:
    """The model's counts under the names of `--json`. Without `late`: the model counts late money, a job all late
    records."""
    return {
        "buffered": result.buffered,
        "waiting": result.waiting,
        "looking_up": result.looking_up,
        "duplicates": result.duplicates,
        "dead_letters": dict(result.dead_letter_counts),
    }
