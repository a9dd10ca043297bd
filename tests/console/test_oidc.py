"""Login through an OpenID provider: what is refused, and the whole way in a browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from moneystate.console import oidc
from moneystate.console.oidc import Attempt, OidcClient, Refused
from moneystate.console.oidc_provider import KEYS_EVERY_S, OidcProvider
from moneystate.console.options import check_oidc
from moneystate.devbroker import DevBroker
from moneystate.errors import ConfigError
from tests.console.openid import CLIENT, SECRET, OpenId, ed_key, rsa_key
from tests.console.test_browser import SERIOUS, browser, page
from tests.console.world import World
from tests.ports import free_port

__all__ = ["browser", "page"]
REDIRECT = "http://127.0.0.1:8088/login/callback"
Spoil = Callable[[OpenId], None]


@pytest.fixture
def openid() -> Iterator[OpenId]:
    with OpenId() as running:
        yield running


def client_of(openid: OpenId, secret: str = SECRET) -> OidcClient:
    return OidcClient(openid.state.issuer, CLIENT, secret, REDIRECT, "openid state.read")


def logged_in(
    openid: OpenId, spoil: Callable[[dict[str, str], Attempt], tuple[dict[str, str], Attempt]] | None = None,
    client: OidcClient | None = None,
) -> str:  # fmt: skip
    """The access token that a login gives. `spoil`: what comes back, and the attempt that the cookie has."""

    async def login() -> str:
        provider = OidcProvider(client or client_of(openid))
        try:
            attempt, url = await provider.begin("/")
            back = openid.visited(url)
            cookie = attempt
            if spoil is not None:
                back, cookie = spoil(back, attempt)
            return await provider.finish(back, cookie)
        finally:
            await provider.close()

    return asyncio.run(login())


def test_the_provider_is_asked_with_pkce_and_each_login_is_new(openid: OpenId) -> None:
    async def begun() -> list[dict[str, str]]:
        provider = OidcProvider(client_of(openid))
        urls = [(await provider.begin("/"))[1] for _ in range(2)]
        await provider.close()
        return [dict(parse_qsl(urlsplit(url).query)) for url in urls]

    one, other = asyncio.run(begun())
    assert (one["client_id"], one["redirect_uri"], one["scope"]) == (CLIENT, REDIRECT, "openid state.read")
    assert (one["response_type"], one["code_challenge_method"]) == ("code", "S256")
    assert all(one[name] != other[name] for name in ("state", "nonce", "code_challenge"))
    assert openid.state.paths == ["/.well-known/openid-configuration"]


@pytest.mark.parametrize("key", [ed_key, rsa_key])
@pytest.mark.parametrize("methods", [None, ["client_secret_post"]])
def test_a_login_gives_the_access_token(openid: OpenId, key: Any, methods: list[str] | None) -> None:
    openid.state.key = key("two")
    openid.state.configuration = {"token_endpoint_auth_methods_supported": methods}
    assert logged_in(openid).count(".") == 2


@pytest.mark.parametrize("claims", [
    {"nonce": "another"}, {"nonce": None}, {"aud": "another"}, {"aud": None}, {"aud": [CLIENT, "another"]},
    {"aud": [CLIENT, "another"], "azp": "another"}, {"iss": "https://evil.example"}, {"iss": None},
    {"exp": int(time.time()) - 3_600}, {"exp": None}, {"iat": None}, {"sub": None}, {"at_hash": "bm90IGl0cyBoYXNo"},
    {"nbf": int(time.time()) + 3_600},
])  # fmt: skip
def test_an_id_token_of_another_login_is_refused(openid: OpenId, claims: dict[str, Any]) -> None:
    openid.state.claims = claims
    with pytest.raises(Refused, match="expected an ID token that the provider has made for this login"):
        logged_in(openid)


def test_an_id_token_that_another_key_has_signed_is_refused(openid: OpenId) -> None:
    openid.state.published = [ed_key("one")]  # a key of the same name
    with pytest.raises(Refused, match="Signature verification failed"):
        logged_in(openid)
    openid.state.published = [ed_key("another"), ed_key("third")]
    with pytest.raises(Refused, match="that a key of the provider has signed"):
        logged_in(openid)


@pytest.mark.parametrize(("spoil", "why"), [
    (lambda back, its: ({**back, "state": "another"}, its), "expected the answer to this browser's login"),
    (lambda back, its: ({"code": back["code"]}, its), "expected the answer to this browser's login"),
    (lambda back, its: ({**back, "iss": "https://evil.example"}, its), "found one of https://evil.example"),
    (lambda back, its: ({"code": back["code"], "state": back["state"]}, its), "found one of None"),
    (lambda back, its: ({**back, "code": ""}, its), "expected a code"),
    (lambda back, its: ({**back, "code": "another"}, its), "found invalid_grant"),
    (lambda back, its: (back, replace(its, verifier="another")), "found invalid_grant"),
])  # fmt: skip
def test_an_answer_to_another_login_is_refused(openid: OpenId, spoil: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        logged_in(openid, spoil)


def test_what_the_provider_refuses_is_told(openid: OpenId) -> None:
    openid.state.error = "access_denied"
    with pytest.raises(Refused, match="the provider refuses it: access_denied"):
        logged_in(openid)


@pytest.mark.parametrize(("configuration", "why"), [
    ({"issuer": "https://evil.example"}, "found https://evil.example"),
    ({"token_endpoint": "http://evil.example/token"}, "https endpoints"),
    ({"jwks_uri": None}, "https endpoints"),
    ({"authorization_endpoint": "javascript:alert(1)"}, "https endpoints"),
    ({"code_challenge_methods_supported": ["plain"]}, "PKCE by S256"),
    ({"code_challenge_methods_supported": None, "jwks_uri": "http://["}, "https endpoints"),
])  # fmt: skip
def test_a_provider_that_is_unsafe_is_not_used(openid: OpenId, configuration: dict[str, Any], why: str) -> None:
    openid.state.configuration = configuration
    with pytest.raises(Refused, match=why):
        logged_in(openid)


def test_a_client_with_another_secret_gets_no_tokens(openid: OpenId) -> None:
    for secret in ("another", ""):
        with pytest.raises(Refused, match="found invalid_grant"):
            logged_in(openid, client=client_of(openid, secret))


def test_new_keys_are_asked_for_once_a_token_names_one(openid: OpenId) -> None:
    now_s = 0.0

    async def logins() -> None:
        nonlocal now_s
        provider = OidcProvider(client_of(openid), seconds=lambda: now_s)

        async def login() -> None:
            attempt, url = await provider.begin("/")
            await provider.finish(openid.visited(url), attempt)

        await login()
        await login()
        assert openid.state.paths.count("/keys") == 1
        openid.state.key = ed_key("two")
        openid.state.published = [openid.state.key, ed_key("three")]
        now_s = KEYS_EVERY_S + 1
        await login()
        assert openid.state.paths.count("/keys") == 2
        openid.state.published = [ed_key("four"), ed_key("five")]
        openid.state.key = openid.state.published[0]
        with pytest.raises(Refused, match="another one"):
            await login()
        assert openid.state.paths.count("/keys") == 2
        await provider.close()

    asyncio.run(logins())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "a"}'])
def test_a_cookie_of_no_login_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="has begun no login"):
        Attempt.of_text(text)


def test_an_attempt_outlives_its_cookie() -> None:
    attempt = Attempt.begun("/topics?at=1")
    assert Attempt.of_text(attempt.text()) == attempt


@pytest.mark.parametrize("change", [
    {"issuer": "http://login.example.org"}, {"redirect": "http://console.example.org/login/callback"},
    {"redirect": "https://console.example.org/"}, {"redirect": "https://console.example.org/?a=/login/callback"},
    {"client_id": ""}, {"scopes": "state.read"},
])  # fmt: skip
def test_flags_that_are_unsafe_are_refused(change: dict[str, str]) -> None:
    good = OidcClient("https://login.example.org", CLIENT, "", "https://console.example.org/login/callback", "openid")
    check_oidc(good, has_keys=True)
    with pytest.raises(ConfigError, match="--token-key"):
        check_oidc(good, has_keys=False)
    with pytest.raises(ConfigError, match="--oidc-"):
        check_oidc(replace(good, **change), has_keys=True)


class Opened(World):
    """A console alone, whose browsers log in through a provider."""

    def __init__(self, servers: str, folder: Path, openid: OpenId) -> None:
        secret = folder / "secret"
        secret.write_text(SECRET + "\n")
        port = free_port()
        flags = {
            "--listen": f"127.0.0.1:{port}",
            "--token-key": openid.write_keys(folder / "keys.json"),
            "--token-issuer": openid.state.issuer,
            "--oidc-issuer": openid.state.issuer,
            "--oidc-client": CLIENT,
            "--oidc-secret": str(secret),
            "--oidc-redirect": f"http://127.0.0.1:{port}{oidc.CALLBACK}",
        }
        super().__init__(servers, folder, *(word for pair in flags.items() for word in pair), services=())

    def _start(self) -> None:
        self.addresses = {}
        self.console = self.listening(self.run_console())


def test_a_browser_logs_in_and_out(own_broker: DevBroker, tmp_path: Path, openid: OpenId, page: Page) -> None:
    with Opened(own_broker.bootstrap_servers, tmp_path, openid) as world:
        page.goto(f"http://{world.console}/topics")
        assert [one["id"] for one in Axe().run(page).response["violations"] if one["impact"] in SERIOUS] == []
        page.get_by_role("link", name="Log in through").click()
        page.get_by_role("link", name="Allow").click()  # a browser comes back from another site
        page.wait_for_url(f"http://{world.console}/topics")
        assert page.get_by_text("ann").is_visible()
        cookies: dict[str, Any] = {one["name"]: one for one in page.context.cookies()}
        assert set(cookies) == {"moneystate_token"}
        token = cookies["moneystate_token"]
        assert (token["httpOnly"], token["sameSite"]) == (True, "Strict")
        assert token["expires"] <= time.time() + openid.state.life_s
        page.get_by_role("button", name="Log out").click()
        leave = page.get_by_role("link", name="Log out of")
        assert (leave.get_attribute("href") or "").startswith(f"{openid.state.issuer}/leave?client_id={CLIENT}&")
        assert page.context.cookies() == []
        reply = world.get(f"{oidc.CALLBACK}?code=any&state=any")
        assert reply.status == 403
        assert reply.has("this browser has begun no login")


def test_a_token_that_the_console_does_not_take_logs_nobody_in(
    own_broker: DevBroker, tmp_path: Path, openid: OpenId
) -> None:
    with Opened(own_broker.bootstrap_servers, tmp_path, openid) as world:
        openid.state.life_s = -60
        begun = world.get("/login/oidc")
        assert begun.status == 303
        cookie = begun.headers["set-cookie"].split(";")[0]
        back = openid.visited(begun.headers["location"])
        reply = world.get(oidc.CALLBACK, cookies=cookie, **back)
        assert reply.status == 403
        assert reply.has("expected an access token that the console takes, but it has expired")
        assert "moneystate_token" not in reply.headers["set-cookie"]
