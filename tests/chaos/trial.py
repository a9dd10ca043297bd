"""One schedule, run: the job with its faults, a clean run to the end, and the comparison with the reference."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import psutil

from moneystate.job.checkpoint import Checkpoint
from tests.chaos import faults, logs
from tests.chaos.disk import SmallDisk
from tests.chaos.machine import Life, Machine
from tests.chaos.schedule import ONCE_A_RUN, Moment, Schedule
from tests.chaos.targets import TARGETS, Difference, difference, live_entries
from tests.chaos.world import World
from tests.job.harness import Finished, processes_of
from tests.kafka.logs import Cluster, wait_until_stable
from tests.log_lines import kinds, shown
from tests.reference.kafka_log import read_log
from tests.reference.model import LogRecord
from tests.workloads.workload_log import send_log

OUTLIVES_S = 90.0
DRAINED = "found one that --drain has ended"  # all was done before the fault came
STARTS = 3  # of the run to the end: one, unless something is wrong


@dataclass
class Result:
    """`injected`: faults that came about; `skipped`: those that could not, with the reason; `ends`: how the runs
    ended that did not end well, and what they said; `problems`: what must not be."""

    seed: int
    schedule: str
    kind: str
    target: str
    injected: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    starts: int = 0
    records: int = 0
    outputs: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    wrong_state: int = 0
    replayed: bool = False
    ends: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    commit: str = ""

    def held(self) -> bool:
        return not (self.lost or self.doubled or self.wrong or self.wrong_state or self.problems)

    def as_json(self) -> str:
        """Only what is not the default. If all held, of the ends only their codes."""
        there = asdict(self)
        if self.held():
            there["ends"] = [text.partition(":")[0] for text in self.ends]
        defaults = {f.name: f.default_factory() if callable(f.default_factory) else f.default for f in fields(self)}
        return json.dumps({name: value for name, value in there.items() if value != defaults[name]})

    def line(self) -> str:
        counts = f"in {self.records}, out {self.outputs}, lost {self.lost}, doubled {self.doubled}, wrong {self.wrong}"
        state = f"state {self.wrong_state or 'same'}{' and replayed' if self.replayed else ''}"
        verdict = "held" if self.held() else "NOT HELD"
        more = "".join(f"\n    {text}" for text in (*self.problems, *(self.ends if self.problems else ())))
        skipped = f", not injected: {'; '.join(self.skipped)}" if self.skipped else ""
        return (
            f"{self.seed} {self.schedule}: {verdict}, {self.starts} starts, {counts}, {state}, {self.seconds:.1f} s"
            f"{skipped}{more}"
        )


class Trial:
    def __init__(self, world: World, schedule: Schedule) -> None:
        self.world, self.schedule = world, schedule
        self.prefix = f"s{schedule.seed}-"
        self.folder = Path(tempfile.mkdtemp(dir=world.folder, prefix=f"seed-{schedule.seed}-"))
        self.folder_of_checkpoint = self.folder / "checkpoint"
        self.cluster = Cluster(world.servers, self.prefix)
        self.target = TARGETS[schedule.target](schedule)
        self.key_groups = schedule.key_groups
        self.flags: list[str] = []  # that a fault's remedy needs from then on
        self.servers = world.servers
        self.sent = 0
        self.over = False  # drained
        self.cut_short = False  # what is left of the log cannot be read any more: so far, everything has to be right
        self.replayable = True  # the log has all that was read
        self.widened: list[dict[str, dict[int, int]]] = []  # ends of outputs that then got more partitions
        self._disk: SmallDisk | None = None
        kind = schedule.faults[0].kind
        self.result = Result(schedule.seed, str(schedule), kind, schedule.target)

    # Running

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.folder_of_checkpoint))

    def arguments(self, *more: str) -> list[str]:
        s = self.schedule
        return [
            *self.target.arguments(self.folder),
            *("--bootstrap-servers", self.servers, "--topic-prefix", self.prefix),
            *("--checkpoint", str(self.folder_of_checkpoint), "--partitions", str(s.partitions)),
            *("--key-groups", str(self.key_groups), "--topic-partitions", str(s.topic_partitions)),
            *("--max-records-per-batch", str(s.batch_records), "--until-caught-up", "--json", "--quiet"),
            *(*self.flags, *more),
        ]

    def start(self, machine: Machine, *more: str, hold: str = "") -> Life:
        """A run to the end of the log, and to that of the checkpoint."""
        self.result.starts += 1
        return machine.start(self.arguments("--drain", *more), self.folder, hold)

    def hold(self, moment: Moment) -> str:
        if moment.step == "start":
            return ""
        if moment.step in ONCE_A_RUN:
            return moment.step
        return f"{moment.step}@{self.checkpoint.last_committed() + 1 + moment.batch}"

    def reach(self, life: Life, moment: Moment) -> bool:
        """Waits for the moment; at a failpoint the job is held. False: it ended before."""
        if moment.step == "start":
            time.sleep(moment.after_ms / 1000)
            return not life.is_over()
        if not life.held():
            return False
        if moment.after_ms >= 0:
            life.release()
            time.sleep(moment.after_ms / 1000)
        return not life.is_over()

    def ended(self, life: Life) -> Finished:
        """Waits for the end of a run that a fault has met. It ends well, or with one line."""
        done = life.finish()
        if done.code == 0:
            self.over = True
        elif done.code == -9:
            self.problem("a run hung, or its process died of nothing that was done to it")
            life.machine.kill()
        else:
            self._check_line(done)
        if not life.processes("jvm"):
            life.machine.kill()  # the next command needs a new one
        return done

    def _check_line(self, done: Finished) -> None:
        self.result.ends.append(f"code {done.code}: {shown(done.err).strip()[-600:]}")
        if done.code not in (2, 3, 4, 5) or kinds(done.err)[-1:] != ["error:"] or "Traceback" in done.err:
            self.problem(f"a run ended with code {done.code} and not with one line:\n{done.err[-2000:]}")

    def refused(self, done: Finished, code: int) -> bool:
        if done.code != code:
            self.problem(f"expected code {code}, found {done.code}")
        return done.code == code

    def problem(self, text: str) -> None:
        self.result.problems.append(text)

    def command(self, *arguments: str) -> Finished:
        done = self.world.first.run(arguments, self.folder)
        if done.code != 0:
            self.problem(f"moneystate {' '.join(arguments[:2])} ended with code {done.code}: {done.out}{done.err}")
        return done

    # The log

    def create_topics(self) -> None:
        for topic in self.target.topics:
            self.cluster.create(topic, self.schedule.topic_partitions)

    def send(self, share: float = 1.0) -> None:
        end = max(self.sent, int(share * len(self.target.log)))
        send_log(self.target.log[self.sent : end], self.world.servers, self.prefix, self.world.producer)
        self.sent = end

    def resend(self, topic: str) -> None:
        """What was sent to a topic that is new."""
        log = [r for r in self.target.log[: self.sent] if r.topic == topic]
        send_log(log, self.world.servers, self.prefix, self.world.producer)

    def run_part(self, share: float) -> None:
        """A run over a part of the log, to a checkpoint that can go on."""
        self.send(share)
        self.result.starts += 1
        done = self.world.first.run(self.arguments(), self.folder)
        if done.code != 0:
            self.problem(f"a run without a fault ended with code {done.code}: {done.err[-1000:]}")

    def read(self, topic: str) -> list[LogRecord]:
        """Reads the topic by partition and offset, but all that was written before partitions were added comes first: a
        key may have moved then."""
        wait_until_stable(self.cluster.admin, [self.prefix + topic])
        records, _ = read_log(self.world.servers, [topic], self.prefix)
        ends = [before[topic] for before in self.widened if topic in before]
        return sorted(records, key=lambda r: sum(r.offset >= end.get(r.partition, 0) for end in ends))

    # One after the other

    def run(self) -> Result:
        begun = time.monotonic()
        try:
            self._run()
        except Exception as e:
            self.problem(f"{type(e).__name__}: {e}")
            self.world.first.kill()
            self.world.second.kill()
        self.result.seconds = round(time.monotonic() - begun, 1)
        for texts in (self.result.ends, self.result.problems):  # results are kept, folders are not
            texts[:] = [text.replace(str(self.world.folder), "") for text in texts]
        return self.result

    def _run(self) -> None:
        self.create_topics()
        for fault in self.schedule.faults:
            if self.over or self.cut_short:
                self.result.skipped.append(f"{fault.kind}: the run had ended")
                continue
            if fault.moment is not None and self.sent < len(self.target.log):
                self.send()
            reason = faults.INJECT[fault.kind](self, fault)
            if reason:
                self.result.skipped.append(f"{fault.kind}: {reason}")
            else:
                self.result.injected.append(fault.kind)
        if not self.cut_short:
            self._to_the_end()
        self._compare()

    def _to_the_end(self) -> None:
        self.send()
        for attempt in range(STARTS):
            if self.over:
                return
            done = self.start(self.world.first).finish()
            self.over = done.code == 0 or DRAINED in done.err
            if not self.over:
                self.problem(f"clean run {attempt + 1} ended with code {done.code}: {shown(done.err)[-1000:]}")
                self.world.first.kill()

    def _compare(self) -> None:
        target, result = self.target, self.result
        want, got = target.wanted(), target.written(self.read, self.prefix)
        differing = difference(want, got)
        if self.cut_short:  # what could not be read is not there
            differing = Difference(0, differing.doubled, differing.wrong)
        result.records, result.outputs = self.sent, sum(map(len, got.values.values()))
        result.lost, result.doubled, result.wrong = differing.lost, differing.doubled, differing.wrong
        if not self.over:
            return
        partitions = [(topic, n) for topic in target.topics for n in range(self.partitions(topic))]
        changelog = self.read(target.changelog)
        entries = live_entries(target, changelog, self.key_groups, self.partitions(target.changelog))
        result.wrong_state = target.wrong_state(entries, partitions)
        if self.schedule.replay:
            self._replay()

    def partitions(self, topic: str) -> int:
        return self.cluster.partitions(topic)

    def _replay(self) -> None:
        """Spark's own state and the output, against a replay of the logs."""
        service = ("--service", self.target.service) if self.target.service else ()
        flags = ("--bootstrap-servers", self.world.servers, "--json", "--quiet", *service)
        done = self.world.first.run(
            ["verify-replay", "--checkpoint", str(self.folder_of_checkpoint), *flags], self.folder
        )
        if not self.replayable:
            self.refused(done, logs.SETUP)
            return
        verdict: dict[str, Any] = json.loads(done.out.splitlines()[-1]) if done.out.strip() else {}
        self.result.replayed = bool(verdict.get("agrees"))
        if not self.result.replayed:
            self.problem(f"the replay does not agree (code {done.code}): {done.out}{shown(done.err)[-600:]}")

    def check_gone(self, session: int | None) -> None:
        """What a killed driver leaves behind has to end by itself."""
        if session is None:
            return
        _, alive = psutil.wait_procs(processes_of(session), timeout=OUTLIVES_S)
        if left := [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
            self.problem(f"{len(left)} processes outlived their driver by {OUTLIVES_S:.0f} s: {left}")
            for process in left:
                process.send_signal(signal.SIGKILL)

    def small_disk(self) -> SmallDisk:
        """Until the end of the trial. Raises PermissionError."""
        self._disk = SmallDisk(self.folder / "disk")
        return self._disk

    def close(self) -> None:
        if self._disk is not None:
            self._disk.close()
        self.world.proxy.heal()
        self.world.delete_topics(self.prefix)
        shutil.rmtree(self.folder, ignore_errors=True)
