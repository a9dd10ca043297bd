"""The examples of clients work, in both languages; the stubs of the contract are those of its services."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.query.serving import Server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_go(".", tmp_path_factory.mktemp("go"))


def build_go(package: str, folder: Path) -> str:
    """Built with the Go and the modules that `make env` has put in place, without network."""
    built = str(folder / "query-client")
    env = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=readonly"}
    go = str(Path(sys.executable).with_name("go"))
    subprocess.run([go, "build", "-o", built, package], cwd=ROOT / "examples" / "go", check=True, env=env)
    return built


def clients(go_client: str) -> list[list[str]]:
    return [[go_client], [sys.executable, str(ROOT / "examples" / "python" / "get_user.py")]]


def test_both_clients_say_the_same_of_a_user(server: Server, go_client: str) -> None:
    for command in clients(go_client):
        done = ask(command, server.address, "user-000")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "version e-story/2: user-000",
            "country ES, birth year unknown",
            "waiting: m-user-000, 100.0000 EUR, for session s-user-000",
        ]


def test_both_clients_name_the_reason_of_a_failure(server: Server, go_client: str) -> None:
    for command in clients(go_client):
        done = ask(command, server.address, "nobody")
        assert done.returncode == 1
        assert done.stderr.startswith("NOT_FOUND: ")


def ask(command: list[str], address: str, user: str) -> subprocess.CompletedProcess[str]:
    return run_client([*command, "--address", address, user])


def run_client(given: list[str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(given, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
