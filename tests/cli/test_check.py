"""`moneystate check`: what makes a service depend on more than the logs is found, with its line; a pure one is not."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import main
from moneystate.cli.services import load
from moneystate.errors import ConfigError

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


@pytest.mark.parametrize("service", ["examples.orders.orders", "examples.enrichment.enrichment"])
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
