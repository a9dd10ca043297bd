"""`moneystate check`: what makes a service depend on more than the logs is found, with its line; a pure one is not."""

from __future__ import annotations

import json
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import main
from moneystate.cli.services import load
from moneystate.errors import ConfigError
from moneystate.runtime.plans import plan_of
from moneystate.schemas.services import release_service
from moneystate.testing import Bench
from moneystate.testing.purity import ImpureWarning

SERVICE = """
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import moneystate as ms

CACHE: dict[str, int] = {}


@dataclass(frozen=True)
class Put:
    id: str
    amount: float
    at: ms.Millis


@dataclass(frozen=True)
class Out:
    id: str
    text: str


@dataclass
class Kept:
    total: float = 0.0
    n: int = 0


service = ms.Service("impure")
puts = service.input("puts", Put, key="id", time="at")
out = service.output("outs", Out, key="id")
kept = service.value("kept", Kept)


def helper(e: Put) -> str:
    return "BODY_OF_HELPER"


@service.on(puts, kept)
def put(ctx: ms.Context[None], e: Put, kept: Kept) -> None:
    kept.n += 1
    BODY
    ctx.emit(out, Out(ctx.key, helper(e)))
"""


def check(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, body: str, helper: str = '"h"'
) -> tuple[int, dict[str, Any]]:
    file = tmp_path / "impure.py"
    file.write_text(SERVICE.replace("BODY\n", f"{body}\n").replace('"BODY_OF_HELPER"', helper))
    sys.modules.pop("impure", None)
    monkeypatch.setattr("sys.argv", ["moneystate", "check", f"{file}:service", "--records", "60", "--json"])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(SystemExit) as end:
        main.main()
    sys.modules.pop("impure", None)
    assert isinstance(end.value.code, int)
    captured = capfd.readouterr()
    assert captured.out, captured.err
    return end.value.code, json.loads(captured.out.splitlines()[-1])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("kept.n += time.time_ns() % 2", "clock"),
        ("kept.n += datetime.now(UTC).second", "clock"),
        ("kept.n += random.randrange(2)", "random"),
        ("kept.n += len(open(__file__).read())", "I/O"),
        ("kept.n += [len(name) for name in {e.id, 'x'}][0]", "set order"),
        ("for name in set(e.id): kept.n += ord(name)", "set order"),
        ("kept.total += e.amount", "float sum"),
        ("kept.n += hash(e.id) % 2", "hash"),
        ("CACHE[e.id] = 1", "kept in module"),
        ("CACHE.setdefault(e.id, 1)", "kept in module"),
        ("kept = Kept(1.0)", "state replaced"),
        ("kept.count = 1", "undeclared field"),
        ("ms.Reject('no')", "not raised"),
    ],
)
def test_what_is_not_pure_is_found_with_its_line(
    body: str, kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, report = check(monkeypatch, capfd, tmp_path, body)
    assert code == 1
    assert [finding["kind"] for finding in report["findings"]] == [kind]
    line = SERVICE.splitlines().index("    BODY") + 1
    assert report["findings"][0]["place"] == f"{tmp_path / 'impure.py'}:{line}"


def test_a_function_that_a_step_calls_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, report = check(monkeypatch, capfd, tmp_path, "pass", "str(random.random())")
    assert code == 1
    assert [(f["function"], f["kind"]) for f in report["findings"]] == [("helper", "random")]
    assert report["differs"]


def test_what_only_differs_when_it_runs_is_found_by_running_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, report = check(monkeypatch, capfd, tmp_path, "pass", "str(vars(__import__('random'))['random']())")
    assert code == 1
    assert not report["findings"]
    assert "differs with other batches" in report["differs"]


def test_a_pure_service_has_no_findings(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, report = check(monkeypatch, capfd, tmp_path, "kept.n += sum(len(c) for c in sorted(set(e.id)))")
    assert (code, report["findings"], report["differs"]) == (0, [], None)
    assert report["outputs"] > 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import moneystate as ms\nservice = ms.Service()\n", "failing.py:2: TypeError: "),
        ("import moneystate as ms\n\nservice = = 1\n", "failing.py:3: SyntaxError: "),
        (
            "from dataclasses import dataclass\n\n\n@dataclass\nclass Order:\n    tags: list[str] = []\n",
            "failing.py:4: ValueError: ",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_names_its_line(
    text: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(text)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(ConfigError, match=f"but {re.escape(told)}.* Do: correct that line") as refused:
        load(f"{tmp_path}/failing.py:service")
    assert "\n" not in str(refused.value)


def test_a_package_that_another_one_hides_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").touch()
    (tmp_path / "services" / "parcels.py").write_text("import moneystate as ms\nservice = ms.Service('parcels')\n")
    monkeypatch.chdir(tmp_path)
    for text in ("services.parcels:service", f"{tmp_path}/services/parcels.py:service"):
        with pytest.raises(ConfigError, match="Do: rename the package services: another one of that name is in "):
            load(text)


@pytest.mark.parametrize("service", ["examples.orders.orders", "services.enrichment.service"])
def test_the_examples_are_pure(
    service: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["moneystate", "check", f"{service}:service", "--records", "200"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 0, capfd.readouterr().out


OPENED = """
from dataclasses import dataclass
from typing import Annotated

import moneystate as ms

Email = Annotated[str, ms.personal]


@dataclass(frozen=True)
class Put:
    mail: Email
    shop: str
    time: ms.Millis


@dataclass
class Person:
    mail: Email = ""


service = ms.Service("people")
put = service.input("put", Put, key=("shop", "mail"), time="time")
person = service.value("person", Person)
by_mail = service.index("by_mail", person, lambda p: p.mail, personal=False)
closed = service.index("closed", person, lambda p: p.mail)


@service.on(put, person)
def take(ctx: ms.Context[None], e: Put, person: Person) -> None:
    person.mail = e.mail


@service.query(personal=False)
def mail_of(view: ms.View, key: str) -> str:
    return view.get(person, key).mail
"""


def test_what_is_open_to_every_caller_by_hand_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "people.py").write_text(OPENED)
    monkeypatch.setattr(sys, "argv", ["moneystate", "check", f"{tmp_path / 'people.py'}:service", "--records", "5"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "index 'by_mail': personal=False, so every caller may read it",
        "query 'mail_of': personal=False, so every caller may read it",
        "input 'put' of Put: the key mail is personal, and every caller may read keys",
    ]


TIMED = """
from dataclasses import dataclass, field

import moneystate as ms


@dataclass(frozen=True)
class Rules:
    days: int = 1


@dataclass(frozen=True)
class Put:
    id: str
    n: int
    at: ms.Millis
    code: str = ""


@dataclass
class Kept:
    n: int = 0


service = ms.Service("timed", rules=Rules())
puts = service.input("puts", Put, key=KEY, time=TIME, UNIQUE)
kept = service.value("kept", Kept, ttl_ms=TTL)
remind = service.timer("remind")
by_n = service.index("by_n", kept, lambda kept: INDEX)


@service.on(puts, kept)
def put(ctx: ms.Context[Rules], e: Put, kept: Kept) -> None:
    kept.n += 1
    STEP


@service.on(remind, kept)
def due(ctx: ms.Context[Rules], kept: Kept) -> None:
    DUE


@service.query
def total(view: ms.View, ARGUMENT) -> RESULT:
    return 1
"""
RIGHT = {
    "KEY": "'id'", "TIME": "'at'", "UNIQUE": "", "TTL": "lambda rules: rules.days * 86_400_000", "INDEX": "kept.n",
    "STEP": "ctx.at(remind, ctx.now + 1)", "DUE": "kept.n += 1", "ARGUMENT": "key: str", "RESULT": "int",
}  # fmt: skip


def timed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path, **changes: str
) -> tuple[int, str]:
    text = TIMED
    for name, value in {**RIGHT, **changes}.items():
        text = text.replace(name, value)
    (folder / "timed.py").write_text(text)
    sys.modules.pop("timed", None)
    plan_of.cache_clear()
    monkeypatch.setattr("sys.argv", ["moneystate", "check", f"{folder}/timed.py:service", "--records", "60"])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(SystemExit) as end:
        main.main()
    sys.modules.pop("timed", None)
    captured = capfd.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, captured.out + captured.err


def line_with(text: str) -> int:
    return next(n for n, line in enumerate(TIMED.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"STEP": "[][1]"}, f"put at timed.py:{line_with('STEP')}: IndexError: "),
        ({"DUE": "[][1]"}, f"due at timed.py:{line_with('DUE')}: IndexError: "),
        ({"STEP": "ctx.at(remind, -1)"}, f"put at timed.py:{line_with('STEP')}: "),
        ({"KEY": "lambda e: [][1]"}, f"IndexError at timed.py:{line_with('KEY')}: "),
        ({"TIME": "lambda e: [][1]"}, f"IndexError at timed.py:{line_with('TIME')}: "),
        ({"INDEX": "[][1]"}, f" at timed.py:{line_with('INDEX')}: "),
        ({"ARGUMENT": "key: set"}, "query 'total': TotalArguments.key: expected a type that a record can have"),
        ({"RESULT": "object"}, "query 'total': TotalResult.value: expected a type that a record can have"),
        ({"TTL": "lambda rules: rules.weeks"}, f"raised AttributeError at timed.py:{line_with('TTL')}: "),
        ({"TTL": "lambda rules: -1"}, "ttl_ms: expected a duration in ms, found -1"),
        ({"UNIQUE": "unique='id'"}, "unique='id' without within_ms"),
        ({"UNIQUE": "within_ms=5"}, "within_ms without unique"),
        ({"UNIQUE": "unique='id', within_ms=lambda rules: 0"}, "unique='id' with a within_ms of 0"),
        ({"UNIQUE": "bound_ms=lambda rules: 1 // 0"}, f"raised ZeroDivisionError at timed.py:{line_with('UNIQUE')}: "),
    ],
)
def test_what_would_stop_a_job_or_a_server_is_a_problem_with_its_place(
    changes: dict[str, str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert timed(monkeypatch, capfd, tmp_path)[0] == 0
    code, output = timed(monkeypatch, capfd, tmp_path, **changes)
    assert code in (1, 2)
    (line,) = [line for line in output.splitlines() if told in line]
    assert "unforeseen" not in output
    assert "Traceback" not in output
    assert " Do: " in line or "dead letters: exception" in output


def test_a_released_schema_that_was_edited_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert timed(monkeypatch, capfd, tmp_path)[0] == 0
    monkeypatch.syspath_prepend(str(tmp_path))
    release_service("timed:service")
    assert timed(monkeypatch, capfd, tmp_path)[0] == 0
    schema = tmp_path / "avro" / "timed" / "events" / "Put.avsc"
    schema.write_text(schema.read_text().replace('"long"', '"float"'))
    code, output = timed(monkeypatch, capfd, tmp_path)
    assert code in (1, 2)
    assert "expected a schema that moneystate has released" in output


@pytest.mark.parametrize(("time", "warned"), [("lambda e: e.at // 1000", True), ("lambda e: e.n * 1000", False)])
def test_event_times_in_seconds_are_warned_of(
    time: str, warned: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, output = timed(monkeypatch, capfd, tmp_path, TIME=time)
    assert code == 0
    assert ("input 'puts' of Put: warning: a time of 2023-11-14T22:13:20.000Z became 1970-01-20" in output) == warned


def test_the_first_bench_of_a_service_warns_of_impure_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "impure.py").write_text(SERVICE.replace("BODY\n", "kept.n += random.randrange(3)\n"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    service = import_module("impure").service
    with pytest.warns(ImpureWarning, match=r"impure\.py:\d+: put: random: random\.randrange\. Do: ") as warned:
        Bench(service)
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Bench(service)
    del sys.modules["impure"]
