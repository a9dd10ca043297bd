"""`moneystate run`: services, flags of their rules, and what is refused before a broker is asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import main, run, running, service_jobs
from moneystate.cli.job_kinds import Kind
from moneystate.cli.rule_flags import parted, rules_by_service
from moneystate.runtime.plans import plan_of
from moneystate.spark.job import Job
from tests.log_lines import kinds

BASKET = "tests.api.services.basket:service"
ORDERS = "examples.orders.orders:service"
NEEDED = ("--bootstrap-servers", "127.0.0.1:1", "--checkpoint", "no/such/folder")
PLAIN = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Seen:
    id: str
    at: ms.Millis


@dataclass
class Count:
    n: int = 0


service = ms.Service("plain")
seen = service.input("seen", Seen, key="id", time="at")
count = service.value("count", Count)


@service.on(seen, count)
def see(ctx: ms.Context[None], e: Seen, count: Count) -> None:
    count.n += 1
"""


class Ran(Exception):
    """The command got as far as to run jobs."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs


def code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["moneystate", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def jobs(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Sequence[Job]:
    def record(made: Sequence[Job]) -> Any:
        raise Ran(made)

    monkeypatch.setattr(run, "begin_run", lambda *_: None)
    monkeypatch.setattr(running, "kind_of", lambda _: Kind(Job, record))
    monkeypatch.setattr("sys.argv", ["moneystate", "run", *arguments, *NEEDED])
    with pytest.raises(Ran) as ran:
        main.main()
    return ran.value.jobs


def test_a_rule_is_a_flag_and_topics_have_the_name_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = jobs(monkeypatch, ORDERS, "--wait", "10m", "--bound", "1s", "--topic-prefix", "p-")
    assert job.spec.rules["wait_ms"] == 600_000
    assert job.spec.bound_ms == job.spec.rules["bound_ms"] == 1_000
    assert job.options.application() == "p-orders"
    assert (job.spec.changelog, job.spec.commits) == ("orders-state", "orders-commits")
    assert job.spec.streams == ["orders-closed", "orders-dead-letters"]


def test_a_rule_of_several_services_goes_to_those_that_have_it() -> None:
    one, other = rules_by_service([BASKET, BASKET], parted(["--keep", "3s", "--visit=2s", "--basket.keep=4s"]).rules)
    assert one == other == {"keep_ms": 4_000, "visit_ms": 2_000}


@pytest.mark.parametrize(
    "wrong",
    [
        (ORDERS, "--wate", "10m"),
        (ORDERS, "--wait", "10"),
        (ORDERS, "--wait"),
        (ORDERS, ORDERS),
        ("examples.orders.orders:closed",),
        ("examples.orders.orders:nothing",),
        ("examples.orders.orders",),
        ("no.such.module:service",),
        ("no/such/file.py:service",),
        (ORDERS, "--format", "orders=confluent"),
        (ORDERS, "--format", "others=json"),
        (ORDERS, "--drain"),
        ("joining",),  # without the services that exist
        (ORDERS, "--partitions", "65"),
        (ORDERS, "--starting-offsets", "latest"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_one_line_and_code_2(
    wrong: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert code(monkeypatch, "run", *wrong, *NEEDED) == 2
    assert kinds(capfd.readouterr().err) == ["error:"]


def test_a_service_with_records_that_are_not_released_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "plain.py"
    file.write_text(PLAIN)
    assert code(monkeypatch, "run", f"{file}:service", *NEEDED) == 2
    stderr = capfd.readouterr().err
    assert "state/Count" in stderr
    assert re.search(r"Do: run moneystate schemas release \S+/plain\.py:service, and keep the files", stderr)
    assert code(monkeypatch, "schemas", "check", f"{file}:service") == 1
    summary = capfd.readouterr().out.splitlines()[-1]
    assert summary == f"{file}:service: 0 records in 0 released versions; findings: 3 fine, 3 not allowed"
    assert code(monkeypatch, "schemas", "release", f"{file}:service") == 0
    assert code(monkeypatch, "schemas", "check", f"{file}:service") == 0
    summary = capfd.readouterr().out.splitlines()[-1]
    assert summary == f"{file}:service: 3 records in 3 released versions, all fine"
    assert code(monkeypatch, "run", f"{file}:service", *NEEDED) == 3, "no broker"
    sys.modules.pop("plain")


def test_a_format_of_a_topic_that_the_service_decodes_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It would have no effect: the function reads the values."""
    inputs = '[[reconciliation.inputs]]\ntopic = "orders"\nstore = "a"\nrole = "ACTUAL"\n'
    file = tmp_path / "services.toml"
    file.write_text(inputs)
    assert code(monkeypatch, "run", "reconciliation", *NEEDED, "--config", str(file), "--format", "orders=avro") == 2
    assert "expected a topic with a format, found one that the service decodes" in capfd.readouterr().err


def test_a_changed_record_of_an_input_is_a_further_version_and_a_lost_field_of_state_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "changing.py"
    for version, source in enumerate([PLAIN, PLAIN.replace("at: ms.Millis\n", "at: ms.Millis\n    more: int = 0\n")]):
        file.write_text(source)
        forget("changing")
        assert code(monkeypatch, "schemas", "release", f"{file}:service") == 0
        assert (tmp_path / "avro/plain/events/Seen/v2.avsc").exists() == bool(version)
    file.write_text(PLAIN.replace("n: int = 0", "m: int = 0").replace("count.n", "count.m"))
    forget("changing")
    assert code(monkeypatch, "schemas", "release", f"{file}:service") == 2
    assert "state/Count" in capfd.readouterr().err
    forget("changing")


def forget(module: str) -> None:
    """As another process would begin."""
    sys.modules.pop(module, None)
    plan_of.cache_clear()


CONFIG = """
[run]
bound = "3s"

[greeter]
words = "good day"
wait = "30s"

[[greeter.doors]]
topic = "front"
"""
GREETER = "tests.api.services.made:greeter"


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_jobs, "check_released", lambda reference: None)


@pytest.mark.usefixtures("released")
def test_a_service_is_made_from_its_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(CONFIG)
    (job,) = jobs(monkeypatch, GREETER, "--config", str(file), "--wait", "5s")
    assert job.spec.rules["words"] == "good day"
    assert job.spec.rules["wait_ms"] == 5_000
    assert job.spec.bound_ms == 3_000
    assert [t.name for t in job.spec.inputs] == ["front"]


@pytest.mark.usefixtures("released")
def test_the_file_of_the_program_has_the_tables_of_services_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(CONFIG)
    monkeypatch.setenv("MONEYSTATE_CONFIG", str(file))
    (job,) = jobs(monkeypatch, GREETER)
    assert (job.spec.rules["wait_ms"], job.spec.bound_ms) == (30_000, 3_000)


@pytest.mark.parametrize("command", ["ask", "check", "schemas", "serve", "verify-replay"])
def test_other_commands_of_services_leave_their_tables_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(CONFIG)
    monkeypatch.setenv("MONEYSTATE_CONFIG", str(file))
    assert code(monkeypatch, command, "--help") == 0


def test_a_table_that_nobody_reads_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.toml"
    file.write_text("[greter]\nwords = 'x'\n")
    assert code(monkeypatch, "run", GREETER, "--config", str(file), *NEEDED) == 2
    assert "expected tables of commands and services, found [greter]" in capsys.readouterr().err
