"""The log of the long-running commands: what a line has, and what no line has."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import pytest

from moneystate import log
from moneystate.errors import SetupError
from moneystate.serving import child
from tests.log_lines import parsed, shown

EVE = "user-eve"
LOG = log.get_log("moneystate.tests")
LEVELS = ["debug", "info", "warning", "error"]


def parsed_line(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = parsed(capfd.readouterr().err)
    return line


def lookup() -> None:
    try:
        dict[str, str]()[EVE]
    except KeyError as e:
        raise ValueError(f"no {EVE}") from e


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_keeps_what_is_below_it_out(level: str, capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up(level)
    for name in LEVELS:
        getattr(LOG, name)("it happened")
    assert [line["level"] for line in parsed(capfd.readouterr().err)] == LEVELS[LEVELS.index(level) :]


def test_a_line_has_its_fields_first(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up(process="worker 1")
    log.add_fields(service="orders")
    LOG.info("done", batch=3)
    line = parsed_line(capfd)
    assert list(line.items())[1:] == [
        ("level", "info"),
        ("service", "orders"),
        ("process", "worker 1"),
        ("event", "done"),
        ("batch", 3),
    ]


def test_a_line_about_an_exception_has_its_place_but_no_message(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    try:
        lookup()
    except ValueError as e:
        LOG.error("unforeseen", exc_info=e)
        logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task %r>", e, exc_info=e)
    captured = capfd.readouterr().err
    assert EVE not in captured
    ours, theirs = parsed(captured)
    assert ours["exception"] == "builtins.ValueError after builtins.KeyError"
    assert [place.partition(" ")[2] for place in ours["stack"]][-1:] == ["lookup"]
    assert (theirs["logger"], theirs["event"]) == ("asyncio", "Task exception was never retrieved")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device"), "builtins.OSError: [Errno 28] No space left on device"),
        (Exception("IO error: No space left"), "builtins.Exception: IO error: No space left"),  # RocksDB's
        (SetupError("expected a log.", "look."), "moneystate.errors.SetupError: expected a log. Do: look."),
    ],
)
def test_a_message_that_can_have_no_value_is_in_the_line(
    error: Exception, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    log.set_up()
    LOG.error("unforeseen", exc_info=error)
    assert parsed_line(capfd)["exception"] == told


def test_a_thread_that_fails_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    thread = threading.Thread(target=lookup)
    thread.start()
    thread.join()
    captured = capfd.readouterr().err
    assert EVE not in captured
    assert [line["exception"].partition(" ")[0] for line in parsed(captured)] == ["builtins.ValueError"]


def test_libraries_log_from_warning_on(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up("debug")
    for name in ("httpx", "asyncio"):
        logging.getLogger(name).info("GET /sessions/%s", EVE)
    assert capfd.readouterr().err == ""


def test_a_person_reads_short_lines(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    log.set_up(as_json=False)
    log.add_fields(service="orders")
    LOG.info("listening", workers=2)
    LOG.warning("the replica waits")
    LOG.debug("nothing")
    assert capfd.readouterr().err == "listening workers=2\nwarning: the replica waits\n"


def test_without_a_set_up_warnings_are_plain_lines(caplog: pytest.LogCaptureFixture) -> None:
    LOG.info("nothing")
    LOG.warning("it waits", partition=3)
    (line,) = caplog.messages
    assert (line, shown(line)) == ("warning: it waits partition=3", f"{line}\n")


def test_a_child_logs_as_its_parent_and_all_that_it_prints_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up("warning")
    log.add_fields(service="orders")
    started = child.start("worker 1", in_child)
    assert started.process.wait() == 1
    assert started.errors is not None
    started.errors.join()
    captured = capfd.readouterr().err
    assert EVE not in captured
    own, library, end = parsed(captured)
    assert (own["event"], own["service"], own["process"]) == ("it waits", "orders", "worker 1")
    assert (library["event"], library["level"]) == ("E0000 ssl.cc: handshake", "warning")
    assert library["process"] == "worker 1"
    assert (end["event"], end["process"]) == ("an unforeseen error", "worker 1")


def in_child(_parent: object) -> None:
    LOG.info("nothing")
    LOG.warning("it waits")
    sys.stderr.write("E0000 ssl.cc: handshake\n")
    sys.stderr.flush()
    lookup()
