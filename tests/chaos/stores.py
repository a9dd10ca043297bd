"""A checkpoint in S3, while the network to the store is cut, silent or slow, its lists lag, and the job is killed."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

from moneystate.devbroker import DevBroker
from moneystate.kafka.failpoints import GO
from tests.chaos.network import Proxy
from tests.job.harness import Finished, JobProcess, Setup, in_parts, small_workload
from tests.job.test_crash import RULES
from tests.log_lines import kinds
from tests.ports import free_port
from tests.storage.lagging import LaggingLists
from tests.storage.s3 import S3, as_flags

FAULTS = ("cut", "silent", "slow", "kill", "kill with lagging lists", "cut in a commit")
BEGINS_WITHIN_S = 15.0  # from the start of Spark to past the first batches
LASTS_S = (0.5, 8.0)
LAG_S = 20.0
STARTS = 4  # until a run comes to its end without a fault
FLAGS = ("--max-records-per-batch", "100", "--until-caught-up", "--json", "--quiet")


class StoreTrial:
    """One log in parts. A fault meets the run of each part."""

    def __init__(self, broker: DevBroker, folder: Path, store: S3, lists: LaggingLists, proxy: Proxy) -> None:
        self.setup = Setup(broker.bootstrap_servers, "stores-", folder)
        self.lists, self.proxy = lists, proxy
        port = int(proxy.address.rpartition(":")[2])
        # a request is given up soon, so that the job's own behavior shows and not that of the store's client
        impatient = {"spark.hadoop.fs.s3a.attempts.maximum": "2", "spark.hadoop.fs.s3a.retry.limit": "2"}
        timeouts = {
            "spark.hadoop.fs.s3a.connection.timeout": "5s",
            "spark.hadoop.fs.s3a.connection.request.timeout": "5s",
        }
        self.spark = as_flags({**store.settings_by_way_of(port), **impatient, **timeouts})
        self.checkpoint = f"{store.address}/checkpoint"
        self.ends: Counter[str] = Counter()

    def part(self, fault: str, begins_s: float, lasts_s: float) -> None:
        if fault == "cut in a commit":
            self._cut_in_commit(lasts_s)
            return
        with self._start() as job:
            time.sleep(begins_s)
            if fault.startswith("kill"):
                job.kill()
                self.lists.lag_s = LAG_S if fault != "kill" else 0.0
            else:
                self._disturb(fault)
                time.sleep(lasts_s)
                self.proxy.heal()
                self._count(job.finish())
        self._to_the_end()

    def _cut_in_commit(self, lasts_s: float) -> None:
        """A batch is in Kafka. What Spark has to write of it meets a network that is cut."""
        paused = self.setup.folder / "paused"
        paused.unlink(missing_ok=True)
        with self._start(pause_at="committed") as job:
            job.wait_for(paused.exists, "a batch is committed")
            self.proxy.cut()
            paused.write_text(GO)
            time.sleep(lasts_s)
            self.proxy.heal()
            self._count(job.finish())
        self._to_the_end()

    def _start(self, *flags: str, pause_at: str = "") -> AbstractContextManager[JobProcess]:
        return self.setup.start(*FLAGS, *flags, *self.spark, "--checkpoint", self.checkpoint, pause_at=pause_at)

    def _disturb(self, fault: str) -> None:
        if fault == "cut":
            self.proxy.cut()
        elif fault == "silent":
            self.proxy.open.clear()
        else:
            self.proxy.delay_s = 0.3

    def _to_the_end(self) -> None:
        for _ in range(STARTS):
            with self._start() as job:
                code = self._count(job.finish())
            if code != 0:
                time.sleep(self.lists.lag_s)  # then it lists what there is
            self.lists.lag_s = 0.0
            if code == 0:
                return
        raise AssertionError(f"no end after {STARTS} starts: {self.ends}")

    def _count(self, done: Finished) -> int:
        last = done.err.strip().splitlines()[-1:] or [""]
        assert done.code in (0, 3, 4, 5), done.err
        assert done.code == 0 or (kinds(done.err)[-1:] == ["error:"] and "Traceback" not in done.err), done.err
        self.ends[f"code {done.code}" + (f": {last[0][-300:]}" if done.code else "")] += 1
        return done.code

    def check(self) -> None:
        with self._start("--drain") as job:
            done = job.finish()
        assert done.code == 0, done.err
        self.setup.check_output(RULES, drain=True)


def all_of_it(broker: DevBroker, folder: Path, seed: int, faults: int) -> None:
    rng = random.Random(seed)
    log = small_workload("--events", str(200 * faults), "--flush-marker")
    (folder / "s3").mkdir()
    with S3(folder / "s3") as store, LaggingLists(store.port) as lists:
        proxy = Proxy(free_port(), lists.port)
        try:
            trial = StoreTrial(broker, folder, store, lists, proxy)
            trial.setup.create_inputs()
            for number, part in enumerate(in_parts(log, faults)):
                trial.setup.send(part)
                fault = FAULTS[number % len(FAULTS)]
                trial.part(fault, rng.uniform(3, BEGINS_WITHIN_S), rng.uniform(*LASTS_S))
                print(f"{fault}: {dict(trial.ends)}, {lists.left_out} left out of lists", flush=True)
                trial.ends.clear()
            trial.check()
        finally:
            proxy.close()
    print(f"{faults} faults of the store: held", flush=True)
