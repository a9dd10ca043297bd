"""`moneystate state`: tables for people, JSON for programs, exit codes that mean something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.query.conftest import Moneystate
from tests.query.serving import Server
from tests.query.story import EPOCH


@pytest.fixture
def state(moneystate: Moneystate, server: Server) -> Moneystate:
    return lambda *arguments: moneystate("state", *arguments, "--address", server.address)


def test_a_user_as_a_table_and_as_json(state: Moneystate) -> None:
    shown = state("get", "ann")
    assert shown.code == 0, shown.err
    assert f"version {EPOCH}/2, watermark 2023-11-14T22:13:49.000Z" in shown.out
    assert ["country", "PT"] in [line.split()[:2] for line in shown.out.splitlines()]
    user = json.loads(state("get", "ann", "--json", "--at-version", f"{EPOCH}/0").out)["user"]
    assert user["resident_country_code"]["value"] == "ES"


def test_lists_page_until_the_limit(state: Moneystate) -> None:
    listed = state("users", "--country", "ES", "--limit", "1000", "--json")
    users = [json.loads(line)["user_id"] for line in listed.out.splitlines()]
    assert users == [f"user-{n:03d}" for n in range(0, 300, 3)]
    few = state("users", "--limit", "2")
    assert len(few.out.splitlines()) == 4  # version, titles, two users
    assert "raise --limit" in few.err


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["session", "s-late"], "s-late"),
        (["pending", "--reason", "waiting"], "m-user-000"),
        (["explain", "--user", "ann", "--field", "country"], "PT"),
        (["explain", "m-user-000"], "waiting"),
        (["diff", "--from-version", f"{EPOCH}/1"], "1999"),
        (["diff", "ann", "--from-version", f"{EPOCH}/0"], "PT"),
        (["watch", "--since", f"{EPOCH}/1", "--count", "2"], "1999"),
        (["watch", "bob", "--since", f"{EPOCH}/1", "--count", "1"], "1999"),
        (["status"], "caught up"),
        (["get", "ann", "bob", "nobody"], "nobody: nothing is known"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_command_shows_what_it_is_for(state: Moneystate, arguments: list[str], shown: str) -> None:
    done = state(*arguments)
    assert done.code == 0, done.err
    assert shown in done.out
    if "get" not in arguments:
        lines = state(*arguments, "--json").out
        assert lines.startswith("{")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["get", "nobody"], 1),
        (["get", "ann", "--at-version", f"{EPOCH}/99"], 1),
        (["get", "x" * 2000], 2),
        (["get", "ann", "--at-version", "nonsense"], 2),
        (["get", "ann", "--at-time", "yesterday"], 2),
        (["explain"], 2),
        (["diff"], 2),
        (["get", "ann", "--tls-ca", "/nowhere.pem"], 2),
        (["get"], 2),
    ],
    ids=str,
)
def test_exit_codes(state: Moneystate, arguments: list[str], code: int) -> None:
    done = state(*arguments)
    assert done.code == code
    assert len(done.err.strip().splitlines()) == 1
    assert "Traceback" not in done.err


def test_a_server_that_cannot_be_reached_is_code_3(moneystate: Moneystate) -> None:
    done = moneystate("state", "status", "--address", "127.0.0.1:1")
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
    ],
)
def test_serve_refuses_what_does_not_fit(
    moneystate: Moneystate, tmp_path: Path, flags: list[str], message: str
) -> None:
    done = moneystate("serve", "--bootstrap-servers", "127.0.0.1:1", "--data", str(tmp_path / "none"), *flags)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "none").exists()
