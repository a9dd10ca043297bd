"""Who may see what: tokens of browsers, scopes and masking, and TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.requests import Request

from moneystate.console import login
from moneystate.console.options import Security
from moneystate.console.site import AFTER
from moneystate.devbroker import DevBroker
from moneystate.errors import ConfigError
from tests.console.world import WITHIN_S, World, rows_of
from tests.query.certificates import Pki
from tests.waiting import until

READ, ALL = "state.read", "state.read state.read.personal state.admin"


class Guarded(World):
    """Only the notes, whose server and console want tokens."""

    def __init__(self, servers: str, folder: Path, pki: Pki) -> None:
        tokens = ("--token-key", pki.token_key)
        super().__init__(servers, folder, *tokens, "--allow-writes", services=("notes",), server_flags=tokens)
        self.pki = pki

    def cookie(self, scope: str) -> str:
        """Returns the cookie of a browser that has logged in."""
        reply = self.post("/login", {"token": self.pki.token(scope)}, Sec_Fetch_Site="same-origin")
        assert reply.status == 303
        own = next(line for line in reply.headers["set-cookie"].splitlines() if line.startswith("moneystate_token"))
        cookie: SimpleCookie = SimpleCookie(own)
        assert cookie["moneystate_token"]["httponly"]
        assert cookie["moneystate_token"]["samesite"] == "strict"
        return f"moneystate_token={cookie['moneystate_token'].value}"


@pytest.fixture(scope="module")
def guarded(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    pki = Pki(tmp_path_factory.mktemp("pki"))
    with Guarded(own_broker.bootstrap_servers, tmp_path_factory.mktemp("world"), pki) as running:
        running.shown_to(running.cookie(ALL), "/state/notes?key=plain", "Ann")
        yield running


def test_without_a_token_every_page_leads_to_the_login(guarded: Guarded) -> None:
    for path in ("/", "/state", "/queries", "/topics", "/topics/notes", "/dead-letters/notes", "/live/services"):
        reply = guarded.get(path)
        assert (reply.status, reply.headers["location"]) == (303, "/login")
    assert guarded.get("/login").has('name="token"')
    assert guarded.get("/static/console.css").status == 200


def test_a_token_that_grants_nothing_is_refused(guarded: Guarded) -> None:
    own = {"Sec_Fetch_Site": "same-origin"}
    assert guarded.post("/login", {"token": "nonsense"}, **own).status == 403
    assert guarded.post("/login", {"token": guarded.pki.token(ALL, expires_in_s=-5)}, **own).status == 403
    assert guarded.post("/login", {"token": guarded.pki.token(ALL)}, Sec_Fetch_Site="cross-site").status == 403
    assert guarded.get("/", cookies="moneystate_token=nonsense").headers["location"] == "/login?refused=yes"


def test_personal_fields_are_masked_unless_the_scope_allows(guarded: Guarded) -> None:
    for path in ("/state/notes?key=plain", "/state/notes/note/record?key=plain"):
        few, all = guarded.get(path, cookies=guarded.cookie(READ)), guarded.get(path, cookies=guarded.cookie(ALL))
        assert ["author", "(masked)"] in rows_of(few.text)
        assert "Ann" not in few.text
        assert ["author", "Ann"] in rows_of(all.text)


def test_records_of_topics_need_the_scope_for_personal_fields(guarded: Guarded) -> None:
    cookie = guarded.cookie(READ)
    for path in ("/topics", "/topics/notes", "/dead-letters/notes"):
        reply = guarded.get(path, cookies=cookie)
        assert reply.status == 403
        assert reply.has("state.read.personal")
        assert guarded.get(path, cookies=guarded.cookie(ALL)).status == 200


def test_sending_again_needs_the_scope_and_the_form(guarded: Guarded) -> None:
    guarded.shown_to(guarded.cookie(ALL), "/dead-letters/notes", "empty_text")
    letters = guarded.get("/dead-letters/notes", cookies=guarded.cookie(ALL))
    path = "/dead-letters/notes/" + next(row[0] for row in rows_of(letters.text) if "empty_text" in row).replace(
        "/", "-"
    )
    reader = guarded.cookie("state.read state.read.personal")
    assert not guarded.get(path, cookies=reader).has("Send to notes")
    assert guarded.post(path, {"value": "{}", "csrf": "x"}, Cookie=reader).status == 403
    assert guarded.post(path, {"value": "{}"}, Cookie=guarded.cookie(ALL)).status == 403


def test_a_token_that_grants_nothing_here_sees_nothing(guarded: Guarded) -> None:
    for path in ("/", "/services/notes", "/state", "/queries", "/compare", "/live/services", "/services/notes/rules"):
        reply = guarded.get(path, cookies=guarded.cookie("state.admin"))
        assert reply.status == 403
        assert reply.has("state.read")


def test_who_reads_dead_letters_is_in_the_log(guarded: Guarded) -> None:
    cookie = guarded.cookie(ALL)
    letters = guarded.shown_to(cookie, "/dead-letters/notes", "empty_text")
    place = next(row[0] for row in rows_of(letters.text) if "empty_text" in row)
    assert guarded.get(f"/dead-letters/notes/{place.replace('/', '-')}", cookies=cookie).status == 200
    lines = [json.loads(line) for line in guarded.console_process.err().splitlines()]
    assert {"dead letters of notes were read", "a dead letter of notes was read"} <= {
        line["event"] for line in lines if line.get("subject") == "tester"
    }
    assert "Ann" not in guarded.console_process.err()


def test_a_page_that_follows_ends_with_its_token(guarded: Guarded) -> None:
    token = guarded.pki.token(READ, expires_in_s=3)
    reply = guarded.get("/live/services", cookies=f"moneystate_token={token}")
    assert reply.status == 200
    assert reply.has("event: services")
    assert guarded.get("/live/services", cookies=f"moneystate_token={token}").status == 303


def test_logging_out_forgets_the_token(guarded: Guarded) -> None:
    reply = guarded.post("/logout", {}, Cookie=guarded.cookie(ALL), Sec_Fetch_Site="same-origin")
    assert 'moneystate_token=""' in reply.headers["set-cookie"]


@pytest.mark.parametrize(
    "after", ["//evil.example/", "/\\evil.example", "https://evil.example/", "/\t/evil.example", "/\n/x", ""]
)
def test_a_login_leads_to_no_other_site(after: str) -> None:
    request = Request({"type": "http", "headers": [(b"cookie", f"{AFTER}={quote(after)}".encode())]})
    assert login.after_login(request) == "/"


def test_other_machines_reach_it_with_tls_and_tokens_only(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    Security().check("127.0.0.1:8088")
    for flags in ({}, {"tls_cert": pki.cert, "tls_key": pki.key}, {"token_key": pki.token_key}):
        with pytest.raises(ConfigError, match="expected a loopback address"):
            Security(**flags).check("0.0.0.0:8088")
    Security(tls_cert=pki.cert, tls_key=pki.key, token_key=pki.token_key).check("0.0.0.0:8088")


@pytest.mark.parametrize("has_login", [False, True])
def test_a_caller_that_asks_too_often_waits(own_broker: DevBroker, tmp_path: Path, has_login: bool) -> None:
    """A browser cannot make up another caller for each request, with or without a login."""
    pki = Pki(tmp_path)
    login_flags = ("--token-key", pki.token_key) if has_login else ()
    console = World(own_broker.bootstrap_servers, tmp_path, "--max-requests", "1", *login_flags, services=())
    console.addresses = {}
    with console.stack:
        console.console = console.listening(console.run_console())
        replies = [console.get("/topics", cookies=f"moneystate_token=made-up-{n}") for n in range(20)]
        refused = [reply for reply in replies if reply.status == 429]
        assert refused
        assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
        assert refused[0].has("expected fewer requests")
        assert console.get("/static/console.css").status == 200
        until(lambda: console.get("/topics").status != 429, lambda: "still refused", WITHIN_S)
