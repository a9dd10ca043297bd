"""`moneystate ask` for the enrichment: tables for people, JSON for programs, exit codes that mean something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.query.conftest import Moneystate
from tests.query.serving import Server
from tests.query.story import EPOCH


@pytest.fixture
def ask(moneystate: Moneystate, server: Server) -> Moneystate:
    return lambda *words: moneystate("ask", "enrichment", *words, "--address", server.address)


def test_a_user_as_a_table_and_as_json(ask: Moneystate) -> None:
    shown = ask("get", "ann", "user")
    assert shown.code == 0, shown.err
    assert f"version {EPOCH}/2, watermark 2023-11-14T22:13:49.000Z" in shown.out
    assert '"PT"' in shown.out
    told = json.loads(ask("get", "ann", "user", "--json", "--at-version", f"{EPOCH}/0").out)
    assert (told["key"], told["record"]["info"]["residentCountryCode"]) == ("ann", "ES")


def test_lists_page_until_the_limit(ask: Moneystate) -> None:
    listed = ask("list", "user", "user-", "--limit", "1000", "--json")
    assert [json.loads(line)["key"] for line in listed.out.splitlines()] == [f"user-{n:03d}" for n in range(300)]
    few = ask("list", "user", "--limit", "2")
    assert len(few.out.splitlines()) == 4  # version, titles, two users
    assert "raise --limit" in few.err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["session", "s-late"], "ann"),
        (["pending"], "m-user-000"),
        (["pending", "reason=WAITING"], "m-user-000"),
        (["pending_of", "user-001"], "m-user-001"),
        (["pending_money", "m-user-000"], "user-000"),
        (["oldest_wait"], "17000000"),
        (["entries", "sessions", "ann"], "s-ann"),
        (["explain", "user", "ann"], "PT"),
        (["diff", "--since", f"{EPOCH}/1"], "1999"),
        (["watch", "bob", "--since", f"{EPOCH}/1", "--count", "1"], "1999"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_question_shows_what_it_is_for(ask: Moneystate, words: list[str], shown: str) -> None:
    done = ask(*words)
    assert done.code == 0, done.err
    assert shown in done.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["get", "nobody"], 1),
        (["get", "ann", "--at-version", f"{EPOCH}/99"], 1),
        (["get", "x" * 70_000], 2),
        (["get", "ann", "--at-version", "nonsense"], 2),
        (["get", "ann", "--at-time", "yesterday"], 2),
        (["explain"], 2),
        (["diff"], 2),
        (["get", "ann", "--tls-ca", "/nowhere.pem"], 2),
        (["get"], 2),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else str(value),
)
def test_exit_codes(ask: Moneystate, words: list[str], code: int) -> None:
    done = ask(*words)
    assert done.code == code
    assert len(done.err.strip().splitlines()) == 1
    assert "Traceback" not in done.err


def test_a_server_that_cannot_be_reached_is_code_3(moneystate: Moneystate) -> None:
    done = moneystate("ask", "enrichment", "status", "--address", "127.0.0.1:1")
    assert done.code == 3
    assert "Do: check --address" in done.err


def test_a_port_that_is_taken_is_code_3(moneystate: Moneystate, server: Server, tmp_path: Path) -> None:
    done = moneystate("serve", *server.command[4:], "--data", str(tmp_path), "--listen", server.address)
    assert done.code == 3
    assert "expected a free port" in done.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--listen", "0.0.0.0:0"], "expected a loopback address"),
        (["--listen", "nonsense"], "expected HOST:PORT"),
        (["--workers", "0"], "expected a whole number from 1 to 64"),
        (["--history", "soon"], "expected a number and a unit"),
        (["--tls-cert", "x"], "expected both or neither"),
        (["--service", "nothing"], "expected MODULE:SERVICE or one of"),
        (["--service", ""], "--service: expected a value"),
    ],
)
def test_serve_refuses_what_does_not_fit(
    moneystate: Moneystate, tmp_path: Path, flags: list[str], message: str
) -> None:
    where = ("--bootstrap-servers", "127.0.0.1:1", "--data", str(tmp_path / "none"))
    done = moneystate("serve", *where, "--service", "enrichment", *flags)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "none").exists()


def test_serve_needs_a_service(moneystate: Moneystate, tmp_path: Path) -> None:
    done = moneystate("serve", "--bootstrap-servers", "127.0.0.1:1", "--data", str(tmp_path / "none"))
    assert done.code == 2
    assert "expected --service SERVICE" in done.err
