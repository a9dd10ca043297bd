"""`moneystate reconciliation status` on a real broker."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moneystate.cli.main import app
from moneystate.devbroker import DevBroker
from moneystate.errors import BrokerError
from moneystate.records.codec import Codec
from moneystate.records.shapes import Shapes
from services.reconciliation.cli.board import FRAME_LINES
from services.reconciliation.completeness import COMPLETENESS
from services.reconciliation.records import Completeness
from tests.kafka.logs import Cluster
from tests.services.reconciliation.test_board import record
from tests.waiting import until


def status(broker: DevBroker, prefix: str, *more: str) -> None:
    flags = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", prefix, *more)
    app(["reconciliation", "status", *flags], prog_name="moneystate", standalone_mode=False)


def test_the_latest_records_are_shown_once_where_there_is_no_terminal(
    broker: DevBroker, topic_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(broker.bootstrap_servers, topic_prefix)
    topic = cluster.create(COMPLETENESS, 2, cleanup_policy="compact")
    codec = Codec(Shapes("reconciliation").record(Completeness, "a test"))
    producer = cluster.producer()
    producer.produce(topic, codec.to_json(record("a", 1, 8, 4, 0)), key="a1", partition=0)
    producer.produce(topic, codec.to_json(record("a", 1, 8, 7, 1, revision=2)), key="a1", partition=0)
    producer.produce(topic, codec.encode(record("b", 2, 4, 4, 0)), key="b2", partition=1)
    assert producer.flush(30) == 0
    svg = tmp_path / "status.svg"
    status(broker, topic_prefix, "--svg", str(svg))
    shown = capsys.readouterr().out
    assert [word for word in shown.split() if word.endswith("%")] == ["87.50%", "100.00%"]
    assert "87.50%" in svg.read_text()
    status(broker, topic_prefix, "--pair", "b")
    assert [word for word in capsys.readouterr().out.split() if word.endswith("%")] == ["100.00%"]


HIDE_CURSOR, SHOW_CURSOR, LINE_UP, ERASE_LINE = "\x1b[?25l", "\x1b[?25h", "\x1b[1A", "\x1b[2K"
RED, GREEN = "\x1b[31m", "\x1b[32m"
LINES, COLUMNS = 12, 100


class Terminal:
    """What a command wrote to its pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self.screen = screen
        self.written = ""

    def read(self) -> bool:
        """Whether there was anything."""
        if not select.select([self.screen], [], [], 0)[0]:
            return False
        try:
            self.written += os.read(self.screen, 65_536).decode()
        except OSError:  # the command has ended
            return False
        return True

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait_for(self, text: str, times: int = 1) -> str:
        """What was written since the last call."""
        until(
            lambda: self.read() and self.written.count(text) >= times,
            lambda: f"{text!r} is not {times} times in {self.written!r}",
            30,
        )
        written, self.written = self.written, ""
        return written

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        code = self.process.wait(30)
        while self.read():
            pass
        return code, self.written


@contextmanager
def on_a_terminal(*arguments: str) -> Iterator[Terminal]:
    screen, its_end = pty.openpty()
    env = {
        name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")
    }  # the terminal's count
    env["TERM"] = "xterm-256color"
    command = [sys.executable, "-m", "moneystate.cli.main", *arguments]
    process = subprocess.Popen(command, stdin=its_end, stdout=its_end, stderr=its_end, env=env, start_new_session=True)
    terminal = Terminal(process, screen)
    terminal.resize(LINES, COLUMNS)
    os.close(its_end)
    try:
        yield terminal
    finally:
        process.kill()
        process.wait()
        os.close(screen)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_a_terminal_it_follows_the_changes_in_place_until_a_signal(
    broker: DevBroker, topic_prefix: str, tmp_path: Path, number: int
) -> None:
    cluster = Cluster(broker.bootstrap_servers, topic_prefix)
    topic = cluster.create(COMPLETENESS, 1, cleanup_policy="compact")
    codec = Codec(Shapes("reconciliation").record(Completeness, "a test"))
    producer = cluster.producer()

    def write(*records: Completeness) -> None:
        for one in records:
            producer.produce(topic, codec.to_json(one), key=f"{one.pair}-{one.interval_start}")
        assert producer.flush(30) == 0

    write(*[record("a", hour, 8, 4, 4) for hour in range(30)])
    svg = tmp_path / "status.svg"
    flags = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", topic_prefix, "--svg", str(svg))
    with on_a_terminal("reconciliation", "status", *flags, "--limit", "100") as terminal:
        first = terminal.wait_for(f"{RED}  50.00%", times=LINES - FRAME_LINES)
        assert HIDE_CURSOR in first
        assert "21:00:00" in first
        assert "..." not in first
        write(record("a", 29, 8, 8, 0, revision=2))
        second = terminal.wait_for(f"{GREEN} 100.00%")
        assert second.count(LINE_UP) == second.count(ERASE_LINE) - 1 == first.count("\n")
        until(lambda: "100.00%" in svg.read_text(), lambda: "the SVG is not that of the last change", 90)
        terminal.resize(LINES, 30)
        terminal.wait_for(f"complete    {GREEN}100.00%")
        code, last = terminal.end(number)
    assert code == 0
    assert last.endswith(SHOW_CURSOR)
    assert "Traceback" not in last


def test_without_the_topic_it_says_what_to_start(broker: DevBroker, topic_prefix: str) -> None:
    with pytest.raises(BrokerError, match="start moneystate run reconciliation"):
        status(broker, topic_prefix)
