"""The life of all services that come with the platform, in one Spark application on a real broker.

One process does everything after the kill, as most of the time would be that of starting Spark's JVM.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import main
from moneystate.devbroker import DevBroker
from tests.job.harness import JobProcess
from tests.query.serving import Server
from tests.services import life
from tests.services.life import CASES, COMMAND_S, Life
from tests.services.live import Case

# tests/demo runs a service of the platform on the real broker, tests/job the platform's own, test_local.py this life
pytestmark = pytest.mark.long


def command(arguments: list[str]) -> tuple[int, str]:
    """`moneystate ARGUMENTS` in this process: its exit code and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main.app(arguments, prog_name="moneystate", standalone_mode=False)
    return (code if isinstance(code, int) else 0), printed.getvalue()


def set_environment(env: dict[str, str]) -> None:
    os.environ.update(env)


class Live(life.Live):
    def __init__(self, broker: DevBroker, folder: Path, servers: ExitStack) -> None:
        super().__init__(broker.bootstrap_servers, folder)
        self.until_the_end = servers

    def kill(self, arguments: list[str]) -> None:
        paused = self.folder / "paused"
        env = {"MONEYSTATE_PAUSE_AT": "sunk@1", "MONEYSTATE_PAUSE_FILE": str(paused)}
        with JobProcess(arguments, self.folder, env) as job:
            job.wait_for(paused.exists, "the second batch of one of them is written")

    def kill_when(self, arguments: list[str], goes_on: Callable[[], bool]) -> None:
        step, paused = self.folder / "step", self.folder / "paused in the loop"
        step.write_text("none")
        paused.unlink(missing_ok=True)
        env = {"MONEYSTATE_PAUSE_AT": f"@{step}", "MONEYSTATE_PAUSE_FILE": str(paused)}

        def is_paused() -> bool:
            if goes_on():
                step.write_text("sunk")
            return paused.exists()

        with JobProcess(arguments, self.folder, env) as job:
            job.wait_for(is_paused, "a batch after one that asks is written", COMMAND_S)

    def serve(self, case: Case) -> str:
        flags = ("--service", case.services[0], "--config", str(self.config))
        server = Server(self.cluster, self.folder / "replicas" / case.name, *flags, job=self)
        return self.until_the_end.enter_context(server).address


class Commands:
    """Runs commands one after the other in one process of its own."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    def __call__(self, arguments: list[str]) -> Any:
        """What the command printed as JSON, None if nothing."""
        printed = self.printed(arguments)
        return json.loads(printed.splitlines()[-1]) if printed.strip() else None

    def printed(self, arguments: list[str]) -> str:
        code, printed = self.pool.submit(command, arguments).result(COMMAND_S)
        assert code == 0, (arguments, printed)
        return printed

    @contextlib.contextmanager
    def meanwhile(self, arguments: list[str]) -> Iterator[Callable[[], None]]:
        """The command runs in this block and gets SIGTERM at its end. Gives a check that it has not ended yet."""
        pid = self.pool.submit(os.getpid).result()
        running = self.pool.submit(command, arguments)

        def check() -> None:
            assert not running.done(), (arguments, running.result())

        yield check
        check()
        os.kill(pid, signal.SIGTERM)
        assert running.result(COMMAND_S)[0] == 0


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[Commands]:
    env = {"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(folder)}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), set_environment, (env,)) as pool:
        pool.submit(os.getpid).result(COMMAND_S)  # its imports take seconds, in which the clock of heartbeats goes on
        yield Commands(pool)


@pytest.fixture(scope="module")
def live(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Live:
    folder = tmp_path_factory.mktemp("live")
    with commands(folder) as run, ExitStack() as servers:
        made = Live(own_broker, folder, servers)
        life.live(made, run)
    return made


class TestLife(Life):
    def test_queries_and_views_show_what_the_topics_say(self, live: Live) -> None:
        assert [given for given, _, _ in live.looked] == [
            *[case.question for case in CASES if case.question], *[case.view for case in CASES if case.view],
        ]  # fmt: skip
        for _, shown, wanted in live.looked:
            assert shown == wanted
            assert shown
