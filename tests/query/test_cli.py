"""`moneystate state`: tables for people, JSON for programs, exit codes that mean something."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.query.serving import UP_S, Server
from tests.query.story import EPOCH


def state(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "services.cli.main", "state", *arguments, "--address", server.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=UP_S, check=False)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_user_as_a_table_and_as_json(server: Server) -> None:
    shown = state(server, "get", "ann")
    assert shown.returncode == 0, shown.stderr
    assert f"version {EPOCH}/2, watermark 2023-11-14T22:13:49.000Z" in shown.stdout
    assert ["country", "PT"] in [line[:2] for line in words(shown.stdout)]
    user = json.loads(state(server, "get", "ann", "--json", "--at-version", f"{EPOCH}/0").stdout)["user"]
    assert user["resident_country_code"]["value"] == "ES"


def test_lists_page_until_the_limit(server: Server) -> None:
    listed = state(server, "users", "--country", "ES", "--limit", "1000", "--json")
    users = [json.loads(line)["user_id"] for line in listed.stdout.splitlines()]
    assert users == [f"user-{n:03d}" for n in range(0, 300, 3)]
    few = state(server, "users", "--limit", "2")
    assert len(words(few.stdout)) == 4  # version, titles, two users
    assert "raise --limit" in few.stderr


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["session", "s-late"], "s-late"),
        (["pending", "--reason", "waiting"], "m-user-000"),
        (["explain", "--user", "ann", "--field", "country"], "PT"),
        (["explain", "m-user-000"], "waiting"),
        (["diff", "--from-version", f"{EPOCH}/1"], "1999"),
        (["diff", "ann", "--from-version", f"{EPOCH}/0"], "PT"),
        (["watch", "--after", f"{EPOCH}/1", "--count", "2"], "1999"),
        (["watch", "bob", "--after", f"{EPOCH}/1", "--count", "1"], "1999"),
        (["status"], "caught up"),
        (["get", "ann", "bob", "nobody"], "nobody: nothing is known"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_command_shows_what_it_is_for(server: Server, arguments: list[str], shown: str) -> None:
    done = state(server, *arguments)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    if "get" not in arguments:
        lines = state(server, *arguments, "--json").stdout
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
        (["get", "ann", "--ca", "/nowhere.pem"], 2),
        (["get"], 2),
    ],
    ids=str,
)
def test_exit_codes(server: Server, arguments: list[str], code: int) -> None:
    done = state(server, *arguments)
    assert done.returncode == code
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_server_that_cannot_be_reached_is_code_3() -> None:
    command = [sys.executable, "-m", "services.cli.main", "state", "status", "--address", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=UP_S, check=False)
    assert done.returncode == 3
    assert "Do: check --address" in done.stderr


def test_a_port_that_is_taken_is_code_3(server: Server) -> None:
    command = [*server.command[:-1], server.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=UP_S, check=False)
    assert done.returncode == 3
    assert "expected a free port" in done.stderr
