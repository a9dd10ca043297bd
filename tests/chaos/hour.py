"""A steady load on a live job for an hour, with a fault every minute. Nothing may be lost, and nothing may grow.

Ids are forgotten after five minutes and sessions after ten, so the state is as large at the end as after ten minutes.
The event times are those of the wall clock, shifted: what is sent in a minute spans a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import mean

import psutil

from moneystate.devbroker import DevBroker
from tests.chaos.machine import kinds_of
from tests.chaos.network import Proxy, second_listener
from tests.chaos.targets import Outputs, difference
from tests.job.harness import ENRICHED, JobProcess, Setup, model_values_by_user, values_by_user
from tests.kafka.logs import wait_until_stable
from tests.log_lines import kinds
from tests.reference import model
from tests.workloads.workload_log import log_producer, send_log, workload_log

RULES = model.Rules(lookup=False, session_ttl_ms=600_000, dedup_ttl_ms=300_000, session_wait_ms=30_000)
FLAGS = ("--session-ttl", "10m", "--dedup-ttl", "5m", "--session-wait", "30s", "--idle-timeout", "1d", "--quiet")
PARTITIONS = 2
SAMPLE_S = 10.0
NOTICED_S = 20.0  # by then a run has ended that cannot go on
FLAT = 1.25  # the last quarter's mean against the second one's
SUPERSEDED = 4  # exit code


@dataclass(frozen=True)
class Sample:
    """Sizes in MB; memory as PSS, in which pages that processes share count once."""

    jvm: float
    python: float
    processes: float
    open_files: float
    checkpoint_files: float
    checkpoint: float
    local_files: float
    changelog: float  # with the commits topic, on the broker's disk


GROWS = ("changelog",)  # until the broker compacts it


class Hour:
    def __init__(self, broker: DevBroker, proxy: Proxy, folder: Path, rng: random.Random) -> None:
        self.broker, self.proxy, self.folder, self.rng = broker, proxy, folder, rng
        self.setup = Setup(broker.bootstrap_servers, "hour-", folder, PARTITIONS)
        self.behind_proxy = self.setup._replace(bootstrap_servers=proxy.address)
        self.local = folder / "local"
        self.job = self.start()
        self.samples: list[Sample] = []
        self.faults: Counter[str] = Counter()
        self.restarts = 0
        self.problems: list[str] = []

    def start(self) -> JobProcess:
        return self.behind_proxy.start(*FLAGS, "--spark-config", f"spark.local.dir={self.local}")

    def restart(self) -> None:
        self.job.kill()
        self.job = self.start()
        self.restarts += 1

    def ensure_running(self) -> None:
        """As a supervisor does."""
        code = self.job.process.poll()
        if code is None:
            return
        if code not in (3, 4, 5) or kinds(self.job.err())[-1:] != ["error:"]:
            self.problems.append(f"the job ended with code {code}: {self.job.err()[-1000:]}")
        self.restart()

    # The faults

    def inject(self) -> str:
        name = self.rng.choice(sorted(FAULTS))
        FAULTS[name](self)
        self.faults[name] += 1
        return name

    def kill_all(self) -> None:
        self.restart()

    def kill_one(self) -> None:
        victim = self.rng.choice(("jvm", "worker", "sink host", "planner"))
        for process, kind in kinds_of(self.job.tree()):
            if kind == victim:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        with contextlib.suppress(AssertionError):  # not all of them are in use at all times
            self.job.finish(NOTICED_S)

    def restart_broker(self) -> None:
        self.rng.choice((self.broker.kill, self.broker.stop))()
        self.broker.start()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        _pause(self.rng.uniform(1.0, 10.0))
        self._signal(signal.SIGCONT)

    def zombie(self) -> None:
        self._signal(signal.SIGSTOP)
        frozen = self.job
        self.job = self.start()
        _pause(NOTICED_S)
        for process in frozen.tree():
            process.send_signal(signal.SIGCONT)
        woken = frozen.finish()
        if woken.code != SUPERSEDED:
            self.problems.append(f"a zombie ended with code {woken.code}: {woken.err[-1000:]}")
        frozen.kill()

    def slow_network(self) -> None:
        self.proxy.delay_s = 0.1
        _pause(20.0)
        self.proxy.heal()

    def cut_network(self) -> None:
        self.proxy.cut()
        _pause(self.rng.uniform(1.0, 8.0))
        self.proxy.heal()

    def silent_network(self) -> None:
        self.proxy.open.clear()
        _pause(self.rng.uniform(1.0, 8.0))
        self.proxy.heal()

    def _signal(self, number: signal.Signals) -> None:
        for process in self.job.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    # The figures

    def sample(self) -> None:
        there = kinds_of(self.job.tree())
        jvm = sum(_pss_mb(p) for p, kind in there if kind == "jvm")
        python = sum(_pss_mb(p) for p, kind in there if kind not in ("jvm", "other"))
        files = [f for f in self.setup.checkpoint.rglob("*") if f.is_file()]
        logs = [f for f in (self.folder / "broker" / "data").glob("hour-money-enrichment-*/*") if f.is_file()]
        self.samples.append(
            Sample(
                jvm,
                python,
                len(there),
                sum(_open_files(p) for p, _ in there),
                len(files),
                _mb(files),
                sum(1 for f in self.local.rglob("*") if f.is_file()),
                _mb(logs),
            )
        )

    def run(self, log: Sequence[model.LogRecord], minutes: float) -> None:
        loading = Loading(log, self.setup, minutes * 60)
        over, minute = time.monotonic() + minutes * 60, 0
        while time.monotonic() < over:
            minute += 1
            next_fault = time.monotonic() + 60
            name = self.inject() if minute > 1 else "none yet"
            while time.monotonic() < min(next_fault, over):
                self.ensure_running()
                with contextlib.suppress(OSError, psutil.Error):
                    self.sample()
                _pause(SAMPLE_S)
            print(f"minute {minute}: {name}; {loading.sent:,} records sent, {self.restarts} restarts", flush=True)
        loading.join()
        self.ensure_running()
        done = self.job.stop()
        if done.code:
            self.problems.append(f"the end of the load: code {done.code}: {done.err[-1000:]}")
        self.job.kill()


class Loading(threading.Thread):
    """Sends the log at a steady rate."""

    def __init__(self, log: Sequence[model.LogRecord], setup: Setup, seconds: float) -> None:
        super().__init__()
        self.log, self.setup, self.seconds = log, setup, seconds
        self.sent = 0
        self.start()

    def run(self) -> None:
        producer, begun = log_producer(self.setup.bootstrap_servers), time.monotonic()
        while self.sent < len(self.log):
            until = int(len(self.log) * (time.monotonic() - begun) / self.seconds) + 1
            send_log(self.log[self.sent : until], self.setup.bootstrap_servers, self.setup.prefix, producer)
            self.sent = min(until, len(self.log))
            _pause(0.2)


FAULTS: dict[str, Callable[[Hour], None]] = {
    "kill all": Hour.kill_all,
    "kill one": Hour.kill_one,
    "restart broker": Hour.restart_broker,
    "freeze": Hour.freeze,
    "zombie": Hour.zombie,
    "slow network": Hour.slow_network,
    "cut network": Hour.cut_network,
    "silent network": Hour.silent_network,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos hour",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=500, help="money events a second")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the log and the faults")
    a = parser.parse_args(arguments)
    print(f"seed {a.seed}", flush=True)
    flags = ("--partitions", str(PARTITIONS), "--users", "2000", "--seed", str(a.seed), "--flush-marker")
    events = ("--events", str(int(a.rate * a.minutes * 60)), "--span-ms", str(int(a.minutes * 60_000)))
    log, _ = workload_log(*flags, *events)
    settings, ports = second_listener()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", ports.broker, heap="1g", settings=settings) as broker:
            proxy = Proxy(ports.outer, ports.inner)
            try:
                hold = _hour(broker, proxy, folder, log, a.minutes, a.seed)
            finally:
                proxy.close()
    if not hold:
        raise SystemExit(1)


def _hour(
    broker: DevBroker, proxy: Proxy, folder: Path, log: Sequence[model.LogRecord], minutes: float, seed: int
) -> bool:
    Setup(broker.bootstrap_servers, "hour-", folder, PARTITIONS).create_inputs()
    hour = Hour(broker, proxy, folder, random.Random(seed))
    try:
        hour.run(log, minutes)
        hour.setup.run(*FLAGS, "--until-caught-up", "--drain")
    finally:
        hour.job.kill()
    wait_until_stable(hour.setup.admin(), [hour.setup.prefix + ENRICHED])
    want = model.run(log, {(r.topic, r.partition) for r in log}, RULES, drain=True)
    differing = difference(_outputs(model_values_by_user(want)), _outputs(values_by_user(hour.setup.read(ENRICHED))))
    print(f"faults: {dict(hour.faults)}; {hour.restarts} restarts; {len(want.enriched):,} outputs: {differing}")
    flat = show(hour.samples)
    for problem in hour.problems:
        print(problem)
    return not differing and flat and not hour.problems


def _outputs(values: dict[str, list[bytes]] | dict[str, list[bytes | None]]) -> Outputs:
    return Outputs({(ENRICHED, user): list(made) for user, made in values.items()})


def show(samples: Sequence[Sample]) -> bool:
    """Means of the four quarters: the state fills in the first one. Whether all that must not grow is flat from the
    second on."""
    parts = [samples[len(samples) * n // 4 : len(samples) * (n + 1) // 4] or samples[-1:] for n in range(4)]
    flat = True
    print(f"{'':18}{'1st quarter':>13}{'2nd':>10}{'3rd':>10}{'4th':>10}{'4th/2nd':>10}{'most':>10}")
    for n, field in enumerate(fields(Sample)):
        means = [mean(astuple(sample)[n] for sample in part) for part in parts]
        ratio = means[3] / means[1] if means[1] else 1.0
        flat = flat and (ratio <= FLAT or field.name in GROWS)
        most = max(astuple(sample)[n] for sample in samples)
        print(f"{field.name:18}{means[0]:13,.1f}{''.join(f'{m:10,.1f}' for m in means[1:])}{ratio:10.2f}{most:10,.1f}")
    return flat


def _pss_mb(process: psutil.Process) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _open_files(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.num_fds())
    return 0


def _mb(files: Sequence[Path]) -> float:
    total = 0
    for file in files:
        with contextlib.suppress(OSError):  # deleted meanwhile
            total += file.stat().st_size
    return total / 2**20


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
