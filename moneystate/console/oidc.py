"""Login through OpenID Connect: the authorization code flow with PKCE, without a connection of its own.

1. The browser is sent to the provider with a state, a nonce and the hash of a verifier. A cookie keeps all three.
2. The provider sends it back with a code, and the state that the cookie must have.
3. The console exchanges the code and the verifier for tokens.
4. The ID token proves that the provider made them for this console and this attempt: signature, issuer, audience,
   nonce, expiry, and the hash of the access token where it has one.
5. The access token is the bearer token of the browser. It is checked as any other one is, by `--token-key`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self
from urllib.parse import urlsplit

import jwt
from authlib.common.urls import add_params_to_uri
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError

from moneystate.engine.json_object import read_object
from moneystate.http import HttpCall, HttpReply
from moneystate.serving.addresses import is_address, is_loopback
from moneystate.serving.token_keys import TokenKeys

CALLBACK: Final = "/login/callback"
SKEW_S: Final = 30  # between the clocks of the provider and of the console
FORM: Final = "application/x-www-form-urlencoded"
MOST_BYTES: Final = 1024 * 1024
NO_SECRET, BY_POST, BY_BASIC = "none", "client_secret_post", "client_secret_basic"


class Refused(Exception):
    """A login that grants nothing. The message says why."""


@dataclass(frozen=True)
class OidcClient:
    """This console, as the provider knows it. `secret`: empty: a public client. `redirect`: the URL of `CALLBACK`."""

    issuer: str
    client_id: str
    secret: str
    redirect: str
    scopes: str


@dataclass(frozen=True)
class Provider:
    """Holds what the provider says of itself. `logout`: where a browser ends its session there; empty: nowhere."""

    authorization: str
    token: str
    keys: str
    logout: str
    auth_methods: tuple[str, ...]
    names_itself: bool  # in what it sends a browser back with (RFC 9207)


@dataclass(frozen=True)
class Attempt:
    """A login that a browser has begun. `after`: the page that it wants."""

    state: str
    nonce: str
    verifier: str
    after: str

    @classmethod
    def begun(cls, after: str) -> Self:
        return cls(secrets.token_urlsafe(48), secrets.token_urlsafe(48), secrets.token_urlsafe(48), after)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Raises Refused."""
        try:
            given = read_object(text.encode())
            attempt = cls(*(str(given[one.name]) for one in fields(cls)))
        except (ValueError, KeyError):
            raise Refused("this browser has begun no login, or one that is over.") from None
        return attempt

    def text(self) -> str:
        return json.dumps(asdict(self))


def is_safe(url: str) -> bool:
    """Whether what is sent there is encrypted, or stays on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    address = f"[{host}]:1" if ":" in host else f"{host}:1"
    return is_address(address) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(address)))


def provider_of(client: OidcClient, reply: HttpReply) -> Provider:
    """Reads the provider from its configuration. Raises Refused."""
    its = _object(reply, "its configuration")
    if its.get("issuer") != client.issuer:
        raise Refused(f"expected a provider with the issuer {client.issuer}, found {its.get('issuer')}.")
    authorization, token, keys, logout = (
        str(its.get(name, ""))
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint")
    )
    if not all(map(is_safe, (authorization, token, keys))):
        raise Refused("expected a provider with https endpoints for authorization, tokens and keys.")
    if "S256" not in _texts(its.get("code_challenge_methods_supported", ["S256"])):
        raise Refused("expected a provider with PKCE by S256.")
    return Provider(
        authorization,
        token,
        keys,
        logout if is_safe(logout) else "",
        _texts(its.get("token_endpoint_auth_methods_supported", [BY_BASIC])),
        its.get("authorization_response_iss_parameter_supported") is True,
    )


def authorization_url(client: OidcClient, provider: Provider, attempt: Attempt) -> str:
    challenge = create_s256_code_challenge(attempt.verifier)
    url: str = prepare_grant_uri(
        provider.authorization, client.client_id, "code", client.redirect, client.scopes, attempt.state,
        nonce=attempt.nonce, code_challenge=challenge, code_challenge_method="S256",
    )  # fmt: skip
    return url


def logout_url(client: OidcClient, provider: Provider) -> str:
    """Returns where a browser ends its session at the provider; empty: nowhere."""
    if not provider.logout:
        return ""
    after = client.redirect.removesuffix(CALLBACK) + "/login"
    url: str = add_params_to_uri(
        provider.logout, [("client_id", client.client_id), ("post_logout_redirect_uri", after)]
    )
    return url


def code_in(given: Mapping[str, str], client: OidcClient, provider: Provider, attempt: Attempt) -> str:
    """The code that the provider has sent a browser back with. Raises Refused."""
    if not secrets.compare_digest(given.get("state", "").encode(), attempt.state.encode()):
        raise Refused("expected the answer to this browser's login, found another one.")
    issuer = given.get("iss")
    if (issuer is not None or provider.names_itself) and issuer != client.issuer:
        raise Refused(f"expected an answer of {client.issuer}, found one of {issuer}.")
    if "error" in given:
        raise Refused(f"the provider refuses it: {given.get('error_description') or given['error']}.")
    if not given.get("code"):
        raise Refused("expected a code of the provider, found none.")
    return given["code"]


def token_call(client: OidcClient, provider: Provider, attempt: Attempt, code: str) -> HttpCall:
    body = prepare_token_request(
        "authorization_code", redirect_uri=client.redirect, code=code, code_verifier=attempt.verifier
    )
    only_post = BY_POST in provider.auth_methods and BY_BASIC not in provider.auth_methods
    method = NO_SECRET if not client.secret else BY_POST if only_post else BY_BASIC
    auth = ClientAuth(client.client_id, client.secret, method)
    headers = {"Content-Type": FORM, "Accept": "application/json"}
    url, headers, body = auth.prepare("POST", provider.token, headers, body)
    return HttpCall(url, "POST", headers, body.encode(), MOST_BYTES)


def tokens_in(reply: HttpReply) -> tuple[str, str]:
    """The access token and the ID token. Raises Refused."""
    its = _object(reply, "tokens")
    access, identity = its.get("access_token"), its.get("id_token")
    if not (isinstance(access, str) and isinstance(identity, str) and access and identity):
        raise Refused("expected an access token and an ID token of the provider. Is `openid` among the scopes?")
    return access, identity


def key_id(token: str) -> str | None:
    """Returns the name of the key that signed a token; None: it has no name. Raises Refused."""
    try:
        return jwt.get_unverified_header(token).get("kid")
    except jwt.PyJWTError as e:
        raise Refused(f"expected an ID token of the provider, but {e}.") from None


def check_identity(identity: str, access: str, keys: TokenKeys, client: OidcClient, attempt: Attempt) -> None:
    """Raises Refused for an ID token that the provider has not made for this attempt."""
    key = keys.find(key_id(identity))
    if key is None:
        raise Refused("expected an ID token that a key of the provider has signed, found another one.")
    try:
        signed = jwt.decode_complete(identity, key.key, [key.algorithm], options=_ONLY_SIGNATURE)
        CodeIDToken(
            signed["payload"], signed["header"],
            {"iss": {"essential": True, "value": client.issuer}, "aud": {"essential": True, "value": client.client_id}},
            {"nonce": attempt.nonce, "client_id": client.client_id, "access_token": access},
        ).validate(leeway=SKEW_S)  # fmt: skip
    except (jwt.PyJWTError, JoseError) as e:
        raise Refused(f"expected an ID token that the provider has made for this login, but {e}.") from None


# Authlib checks the claims, by the rules for ID tokens.
_ONLY_SIGNATURE: Final[Any] = {
    f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
}  # fmt: skip


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _object(reply: HttpReply, wanted: str) -> Mapping[str, Any]:
    """Raises Refused."""
    try:
        its = read_object(reply.body)
    except ValueError:
        its = {}
    if reply.status != 200 or reply.is_cut or not its:
        why = its.get("error_description") or its.get("error") or f"status {reply.status}"
        raise Refused(f"expected {wanted} from the provider, found {why}.")
    return its
