"""The console finds query servers that announce themselves, and asks those alone to which it may send what it sends."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from moneystate.cli.flag_groups import MetricsFlags
from moneystate.cli.watching import Watching
from moneystate.console.announced import NO_ADDRESS, NO_CA, NOT_ENCRYPTED, OTHER_MACHINE, Announced, Rules
from moneystate.devbroker import DevBroker
from moneystate.errors import ConfigError
from moneystate.kafka.announcements import METRICS, STATE, Announcement
from moneystate.serving.addresses import announced, of_metrics
from moneystate.serving.client import Target
from tests.console.world import WITHIN_S, World
from tests.waiting import until

HERE = "machine-1"
LOCAL = Announcement("127.0.0.1:8484", STATE, "notes", HERE, False)
PLAIN = Announcement("query.test:8484", STATE, "notes", "machine-2", False)
PAGE = Announcement("query.test:9100", METRICS, "notes", "machine-2", False)
TLS = Announcement("query.test:8484", STATE, "notes", "machine-2", True)


@pytest.mark.parametrize(("its", "ca", "tokens", "why"), [
    (LOCAL, "", True, ""),
    (
        Announcement("127.0.0.1:8484", STATE, "notes", "machine-2", False), "", False,
        OTHER_MACHINE.format(host="machine-2"),
    ),
    (PLAIN, "", False, ""),
    (PLAIN, "ca.pem", True, NOT_ENCRYPTED),
    (TLS, "", False, NO_CA),
    (TLS, "ca.pem", True, ""),
    (PAGE, "", True, ""),
    (
        Announcement("127.0.0.1:9100", METRICS, "notes", "machine-2", False), "", True,
        OTHER_MACHINE.format(host="machine-2"),
    ),
    (Announcement("query.test/8484", STATE, "notes", HERE, False), "", False, NO_ADDRESS),
])  # fmt: skip
def test_tokens_go_to_servers_alone_that_prove_who_they_are(its: Announcement, ca: str, tokens: bool, why: str) -> None:
    assert Rules(HERE, ca, tokens).refusal(its) == why


def test_servers_are_told_of_as_they_may_be_called() -> None:
    told: list[list[Target]] = []
    pages: list[list[str]] = []
    known = [LOCAL, TLS, PAGE]
    rules = Rules(HERE, "ca.pem", False)
    seen = Announced(
        "servers", lambda _: known, rules, lambda its: told.append([*its]), lambda its: pages.append([*its])
    )
    seen.look(["orders"])
    assert told == []
    seen.look(["orders", "servers"])
    known.pop(0)
    seen.look(["servers"])
    far = Target("query.test:8484", ca="ca.pem")
    assert told == [[Target("127.0.0.1:8484"), far], [far]]
    assert pages == [["query.test:9100"], ["query.test:9100"]]


def test_metrics_are_announced_where_others_reach_them() -> None:
    assert of_metrics("10.0.0.7", "0.0.0.0", 9100, "--announce") == "10.0.0.7:9100"
    assert of_metrics("query.test:443", "::", 9100, "--announce") == "query.test:9100"
    assert of_metrics("10.0.0.7", "127.0.0.1", 9100, "--announce") == "127.0.0.1:9100"
    assert of_metrics("10.0.0.7", "::1", 9100, "--announce") == "[::1]:9100"


def test_a_job_announces_itself_only_with_metrics() -> None:
    assert Watching(MetricsFlags(9100), announce="10.0.0.7").announce == "10.0.0.7"
    for port, text in ((0, "10.0.0.7"), (9100, "0.0.0.0")):
        with pytest.raises(ConfigError, match="--announce"):
            Watching(MetricsFlags(port), announce=text)


def test_an_announced_address_has_the_port_that_is_listened_on() -> None:
    assert announced("10.0.0.7", 8484, "--announce") == "10.0.0.7:8484"
    assert announced("[::1]", 8484, "--announce") == "[::1]:8484"
    assert announced("query.test:443", 8484, "--announce") == "query.test:443"
    for wrong in ("0.0.0.0", "[::]:1", "a b", "host:port", "host:99999"):
        with pytest.raises(ConfigError, match="--announce"):
            announced(wrong, 1, "--announce")


class Announcing(World):
    """A console, and a query server that none of its flags names, of a service without a job."""

    def _start(self) -> None:
        self.addresses = {}
        self.console = self.listening(self.run_console())


def test_a_server_is_shown_from_its_start_to_its_end(own_broker: DevBroker, tmp_path: Path) -> None:
    flags = ("--announce", "127.0.0.1")
    world = Announcing(own_broker.bootstrap_servers, tmp_path, server_flags=flags)
    with world, closing(HTTPConnection(world.console)) as follower:
        follower.request("GET", "/live/services")  # else the console looks more rarely
        server = world._serve("notes")
        address = world.listening(server)
        world.shown("/", f"{address} loads the state")
        assert world.get("/queries").has("/queries/notes/count_since")
        server.stop()
        until(lambda: address not in world.get("/").text, lambda: world.get("/").text, WITHIN_S)
