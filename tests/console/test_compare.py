"""The pages that read checkpoints and savepoints: Compare, and the rules of a job with its next start."""

from __future__ import annotations

import html
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.console.compared_states import StoppedState
from moneystate.console.comparison import Item, Records
from moneystate.console.comparisons import Running, _compare
from moneystate.devbroker import DevBroker
from tests.console.world import HOSTILE, NOTES, WITHIN_S, World, rows_of
from tests.job.harness import JobProcess
from tests.waiting import until

SAVED = "savepoint before"
FIRST = len(HOSTILE) + 2  # notes that the first minutes have


class Compared(World):
    """Two query servers of one job, which has gone on since its savepoint was made."""

    def _start(self) -> None:
        self.topics()
        self.first_notes()
        checkpoint, self.savepoint = self.folder / "checkpoint-notes", self.folder / "before"
        once = ["run", NOTES, "--local", "--until-caught-up", "--bootstrap-servers", self.servers]
        self._ends([*once, "--checkpoint", str(checkpoint), "--max-record-bytes", "1000000"])
        export = ["checkpoint", "export", "--checkpoint", str(checkpoint), "--out", str(self.savepoint)]
        self._ends([*export, "--service", NOTES, "--quiet"])
        self.stopped = self.folder / "stopped"
        shutil.copytree(checkpoint, self.stopped)
        self.job_flags = ("--max-future", "20m")
        self.jobs = [self._run("notes")]
        servers = [self._serve("notes", folder) for folder in ("first", "second")]
        self.both = [self.listening(process) for process in servers]
        self.addresses = {f"notes {number}": address for number, address in enumerate(self.both)}
        self.flags = ("--show-savepoint", f"before={self.savepoint}", "--show-checkpoint", str(checkpoint))
        self.flags += ("--show-checkpoint", str(self.stopped))
        self.console = self.listening(self.run_console())
        self.addresses["notes"] = self.both[0]
        until(lambda: self.notes_known() >= FIRST, lambda: self.jobs[0].err(), WITHIN_S)

    def _ends(self, arguments: list[str]) -> None:
        with JobProcess(arguments, self.folder) as process:
            done = process.finish(WITHIN_S)
            assert done.code == 0, done.err


@pytest.fixture(scope="module")
def compared(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    with Compared(own_broker.bootstrap_servers, tmp_path_factory.mktemp("compared")) as running:
        yield running


def result(world: World, one: str, other: str, **more: str) -> str:
    """The page, once the comparison is over."""
    given = {"service": "notes", "one": one, "other": other, **more}
    until(
        lambda: world.get("/compare", **given).has("Compare again"),
        lambda: world.get("/compare", **given).text,
        WITHIN_S,
    )
    return world.get("/compare", **given).text


def prints(page: str) -> list[str]:
    return re.findall(r"<code>([0-9a-f]{32})</code>", page)


def test_the_same_records_have_the_same_fingerprint_in_any_order() -> None:
    items = [Item("note", f"k{n}", "", f'{{"n":{n}}}') for n in range(10)]
    with Records() as records:
        records.add("one", items)
        records.add("other", items[5:][::-1])
        records.add("other", items[:5])
        same = records.comparison(5)
    assert (same.one, same.total, same.first) == (same.other, 0, [])


def test_differences_are_counted_and_the_first_are_listed_by_key() -> None:
    with Records() as records:
        records.add("one", [Item("note", key, "", key) for key in ("c", "a", "b")])
        records.add("other", [Item("note", "b", "", "x"), Item("note", "c", "", "c"), Item("note", "d", "1", "d")])
        its = records.comparison(2)
    assert (its.total, its.one.records, its.other.records) == (3, 3, 3)
    assert its.one.fingerprint != its.other.fingerprint
    assert [tuple(one) for one in its.first] == [("note", "a", "", "a", None), ("note", "b", "", "b", "x")]


def test_two_servers_of_a_job_have_the_same_state(compared: Compared) -> None:
    one, other = (f"server {address}" for address in compared.both)
    page = result(compared, one, other)
    assert "The states are the same." in page
    first, second = prints(page)
    assert first == second


def test_a_server_at_the_version_of_a_savepoint_equals_it_and_later_ones_differ(compared: Compared) -> None:
    server = f"server {compared.both[0]}"
    assert "The states are the same." in result(compared, server, SAVED, again="7")
    compared.note("plain", "second <b>", 20)
    compared.note("late", "late", 20)
    compared.beat(30)
    until(lambda: compared.notes_known() >= FIRST + 3, lambda: compared.jobs[0].err(), WITHIN_S)  # and the two beats
    page = result(compared, server, SAVED)
    one, other = prints(page)
    assert one != other
    assert "These are different moments" in page
    assert f"only in {server}" in page
    texts = {tuple(html.unescape(cell) for cell in row) for row in rows_of(page) if row and row[0] == "text"}
    assert ("text", "second <b>", "first") in texts


def test_a_stopped_jobs_checkpoint_equals_its_savepoint_and_leaves_nothing(compared: Compared) -> None:
    before = set(Path(tempfile.gettempdir()).glob("moneystate-*/savepoint"))
    page = result(compared, f"checkpoint {compared.stopped}", SAVED)
    assert "The states are the same." in page
    one, other = prints(page)
    assert one == other
    assert set(Path(tempfile.gettempdir()).glob("moneystate-*/savepoint")) <= before


def test_an_export_that_fails_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    program = "import pathlib, sys; pathlib.Path(sys.argv[1]).mkdir(); sys.exit('error: a job runs')"
    command = [sys.executable, "-c", program]
    running, state = Running(), StoppedState(command, NOTES)
    _compare(running, ["note"], (state, state))
    assert running.problem == "error: a job runs"
    assert not state.folder.parent.exists()


def test_the_rules_of_a_job_have_a_history_and_the_next_start_is_planned(compared: Compared) -> None:
    compared.beat(40)
    page = compared.shown("/services/notes/rules", "since batch")
    rows = [tuple(row) for row in rows_of(page.text)]
    assert ("max_future_ms", "1200000") in rows
    assert ("max_future_ms", "600000", "1200000") in rows
    assert compared.get("/services/notes/rules", plan="yes").has("Nothing: the same program with the same rules.")
    assert page.has("<code>moneystate plan tests.console.notes:service --checkpoint")
    assert compared.get("/services/stock/rules").status == 404


def test_what_cannot_be_compared_is_told(compared: Compared) -> None:
    server = f"server {compared.both[0]}"
    assert compared.get("/compare", service="notes", one=server, other="savepoint other").status == 404
    given = {"service": "notes", "one": server, "other": SAVED, "one-at": "none/5"}
    until(lambda: compared.get("/compare", **given).has('role="alert"', "none"), lambda: "no problem", WITHIN_S)


@pytest.mark.parametrize("flag", ["--show-savepoint x=", "--show-checkpoint "])
def test_a_folder_that_is_neither_is_refused_at_the_start(flag: str, own_broker: DevBroker, tmp_path: Path) -> None:
    given = f"{flag}{tmp_path}"
    arguments = ["console", "--bootstrap-servers", own_broker.bootstrap_servers, *given.split()]
    with JobProcess(arguments, tmp_path) as process:
        done = process.finish(WITHIN_S)
    assert done.code == 2
    assert f"{given}: expected a " in done.err
