"""The log of the long-running commands: what a line has, and what no line has."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from moneystate import log
from moneystate.cli import core, main
from moneystate.cli.display import Display
from moneystate.errors import SetupError
from moneystate.job.progress import BatchProgress
from moneystate.serving import child
from tests.log_lines import parsed, shown

EVE = "user-eve"
LOG = log.get_log("moneystate.tests")
LEVELS = ["debug", "info", "warning", "error"]
EVENTS = (("started", 3), ("progress", 4), ("ended", 4))
BEGIN = ("import os, sys", "from moneystate import log", "LOG = log.get_log('moneystate.tests')")


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
        (Exception(f"no {EVE}"), "builtins.Exception"),  # of anyone else's code
        (SetupError("expected a log.", "look."), "moneystate.errors.SetupError: expected a log. Do: look."),
    ],
)
def test_only_a_message_that_can_have_no_value_is_in_the_line(
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


def test_errors_that_circle_are_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    LOG.error("unforeseen", exc_info=first)
    assert parsed_line(capfd)["exception"].startswith("builtins.ValueError after builtins.KeyError after ")


class Fails:
    def __del__(self) -> None:
        lookup()


def test_an_error_that_no_code_can_catch_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    Fails()
    captured = capfd.readouterr().err
    assert EVE not in captured
    assert [line["exception"].partition(" ")[0] for line in parsed(captured)] == ["builtins.ValueError"]


def test_an_error_in_a_callback_is_a_line_without_its_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    async def fail() -> None:
        asyncio.get_running_loop().call_soon(lambda _: lookup(), EVE)
        await asyncio.sleep(0)

    log.set_up()
    asyncio.run(fail())
    captured = capfd.readouterr().err
    assert EVE not in captured
    (line,) = parsed(captured)
    assert (line["logger"], line["event"][:21]) == ("asyncio", "Exception in callback")


def test_a_line_that_cannot_be_made_is_another_line() -> None:
    done = program("log.set_up()", "import logging", f"logging.getLogger('library').warning('%d calls', {EVE!r})")
    assert EVE not in done.stderr
    (line,) = parsed(done.stderr)
    assert (line["logger"], line["event"]) == ("library", log.UNWRITABLE)


def test_services_of_one_run_are_told_apart(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    log.add_fields(service="orders, stock")
    LOG.info("of both")
    for service in ("orders", "stock"):
        with Display(quiet=False, service=service, alone=False) as display:
            display.started(3, "epoch")
            display.batch(BatchProgress(4, 5, 1.0, 6, None, False, 0, epoch="epoch"))
            display.goodbye(stands=False)
    lines = parsed(capfd.readouterr().err)
    assert [(line["service"], line["event"], line.get("version")) for line in lines] == [
        ("orders, stock", "of both", None),
        *((service, event, f"epoch/{batch}") for service in ("orders", "stock") for event, batch in EVENTS),
    ]
    assert [line["core"] for line in lines if line["event"] == "started"] == [core.kind()] * 2


def test_warnings_about_variables_have_the_level_that_was_chosen(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONEYSTATE_TOPIKS", "orders")  # no flag has this variable
    flags = ["moneystate", "heartbeat", "--bootstrap-servers", "127.0.0.1:1", "--topics", ",", "--log-level"]
    for level, told in (("error", ["error"]), ("warning", ["warning", "error"])):
        monkeypatch.setattr("sys.argv", [*flags, level])
        with pytest.raises(SystemExit):
            main.main()
        assert [line["level"] for line in parsed(capfd.readouterr().err)] == told
    monkeypatch.setattr("sys.argv", flags[:4])  # no level, as the flags are wrong
    with pytest.raises(SystemExit):
        main.main()
    assert [line["level"] for line in parsed(capfd.readouterr().err)] == ["warning", "error"]


def test_an_unforeseen_error_ends_a_process_with_a_line() -> None:
    done = program("log.set_up()", f"raise ValueError({EVE!r})")
    assert EVE not in done.stderr
    (line,) = parsed(done.stderr)
    assert (line["event"], line["exit_code"], done.returncode) == ("an unforeseen error", 1, 1)


def test_a_reader_of_stderr_that_leaves_does_not_end_the_process() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    lines = ["log.set_up()", "LOG.warning('it waits')", "log.write('the last')", "os.write(2, b'of a library in C')"]
    done = program(*lines, "print('done')", stderr=writable)
    os.close(writable)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_reader_that_leaves_does_not_hold_a_child_up() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    lines = ["log.set_up()", "from moneystate.serving import child", "from tests.test_log import chatters"]
    done = program(*lines, "print(child.start('worker 1', chatters).process.wait(60))", stderr=writable)
    os.close(writable)
    assert (done.returncode, done.stdout) == (0, "0\n")


def test_no_other_file_takes_the_place_of_a_closed_stderr(tmp_path: Path) -> None:
    lines = ["log.open_stderr()", "log.set_up()", f"f = open({str(tmp_path / 'data')!r}, 'w')"]
    close = "import os; os.close(2); os.execv({0!r}, [{0!r}, '-c', {1!r}])"
    script = "; ".join([*BEGIN, *lines, "LOG.warning('it waits')", "os.write(2, b'of a library in C')"])
    subprocess.run([sys.executable, "-c", close.format(sys.executable, script)], check=True)
    assert (tmp_path / "data").read_bytes() == b""


def program(*lines: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Runs these lines in a process of its own."""
    command = [sys.executable, "-c", "\n".join([*BEGIN, *lines])]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False, timeout=90)


def chatters(_parent: object) -> None:
    """More than a pipe holds."""
    for _ in range(2_000):
        LOG.warning("it waits " + 100 * "-")
    sys.stderr.write(500_000 * "[" + "\n")  # nested deeper than a JSON reader goes
    for _ in range(2_000):
        LOG.warning("it waits " + 100 * "-")


def test_libraries_log_from_warning_on(capfd: pytest.CaptureFixture[str]) -> None:
    log.set_up("debug")
    for name in ("aiohttp.client", "asyncio"):
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
