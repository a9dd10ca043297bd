"""The life of all services that come with the platform, on a log in memory, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from moneystate.job.local.memory_clients import memory_log
from moneystate.kafka.failpoints import REACHED
from tests.local.in_memory import Killed, Running, command, good, killed_at
from tests.services import life
from tests.services.life import Life
from tests.services.live import Case


class Live(life.Live):
    way = ("--local",)

    def kill(self, arguments: list[str]) -> None:
        with killed_at("sunk@1"):
            command(arguments)

    def kill_when(self, arguments: list[str], goes_on: Callable[[], bool]) -> None:
        asked: list[bool] = []

        def reached(step: str, _batch: int) -> None:
            if asked and step == "sunk":
                raise Killed

        with patch.object(REACHED, "step", reached), Running(arguments) as job:
            job.wait_for(goes_on, "a batch that asks is written")
            asked.append(True)
            job.end()

    def serve(self, case: Case) -> None:
        """A server is a process of its own, which does not see this log."""


class Commands:
    def __call__(self, arguments: list[str]) -> Any:
        printed = self.printed(arguments)
        return json.loads(printed.splitlines()[-1]) if printed.strip() else None

    def printed(self, arguments: list[str]) -> str:
        return good(arguments).out

    @contextmanager
    def meanwhile(self, arguments: list[str]) -> Iterator[Callable[[], None]]:
        with Running(arguments) as running:
            yield running.check
            running.check()
            assert running.stop().code == 0


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with memory_log() as (_, address):
        made = Live(address, tmp_path_factory.mktemp("live"))
        life.live(made, Commands())
        yield made


class TestLife(Life):
    def test_views_show_what_the_topics_say(self, live: Live) -> None:
        assert live.looked
        for _, shown, wanted in live.looked:
            assert shown == wanted
            assert shown
