"""One changelog and one server for most tests of this package; those that need another server start it over a folder of
its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moneystate.cli.main import main
from moneystate.devbroker import DevBroker
from moneystate.serving.client import Client
from tests.query.certificates import Pki
from tests.query.contracts import QUERY, STATE, Told
from tests.query.serving import Server, new_cluster

ROOT = Path(__file__).resolve().parents[2]


class Done(NamedTuple):
    code: int
    out: str
    err: str


Moneystate = Callable[..., Done]


@pytest.fixture(scope="session")
def go_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example clients in Go, built as their page says."""
    folder = tmp_path_factory.mktemp("go")
    subprocess.run([sys.executable, ROOT / "examples" / "go" / "build.py", folder], check=True)
    return folder


@pytest.fixture
def moneystate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Moneystate:
    """The command line, without the start of a process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["moneystate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture(scope="package")
def server(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Open on loopback, two workers, the whole story; nobody changes its state."""
    with Server(new_cluster(broker), tmp_path_factory.mktemp("replica"), "--workers", "2") as running:
        yield running.told()


@pytest.fixture(scope="package")
def market_server(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for a plain service."""
    cluster = new_cluster(broker)
    folder = tmp_path_factory.mktemp("market-replica")
    with Server(cluster, folder, *STATE.flags, "--workers", "2", job=STATE.job(cluster)) as running:
        yield running.told()


@pytest.fixture(scope="package", params=[("server", QUERY), ("market_server", STATE)], ids=["query.v1", "state.v1"])
def told(request: pytest.FixtureRequest) -> Told:
    """A server of each contract, with its whole story."""
    fixture, contract = request.param
    return Told(request.getfixturevalue(fixture), contract)


@pytest.fixture
def asking(told: Told) -> Iterator[Client]:
    """A client of `told`."""
    with told.server.client() as connected:
        yield connected


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))
