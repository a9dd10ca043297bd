"""Calls the session service and interprets its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import httpx

from moneystate.errors import ConfigError
from services.enrichment.events import MAX_KEPT_BYTES
from services.enrichment.lookup.limiter import retry_after_s

PLACE = "{userSessionId}"
MAX_BYTES = 64 * 1024  # of an answer, which holds a country code
# The service speaks, but not of this request: it lets nobody in, or nobody now. As a failure of the service.
NOT_LET_IN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


@dataclass(frozen=True, slots=True)
class Found:
    country: str


@dataclass(frozen=True, slots=True)
class NotFound:
    pass


@dataclass(frozen=True, slots=True)
class Unusable:
    """A response that is not an answer."""

    reason: str
    works: bool  # True: the response still shows that the service works


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The service does not work, as far as this call can tell."""

    reason: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Too many requests (429)."""

    retry_after_s: float | None


CallResult = Found | NotFound | Unusable | Unavailable | Refused


@dataclass(frozen=True)
class ServiceConfig:
    """How to call the service. Files are PEM."""

    url_template: str  # contains `{userSessionId}`
    bearer_token_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    ca_file: Path | None = None

    def check(self) -> None:
        """Raises ConfigError."""
        try:
            url = httpx.URL(self.url_template.replace(PLACE, "x"))
        except httpx.InvalidURL:
            url = httpx.URL("")
        if self.url_template.count(PLACE) != 1 or url.scheme not in ("http", "https") or not url.host:
            raise ConfigError(
                f"--url-template {self.url_template}: expected an http or https URL with {PLACE} in it once.",
                f"for example https://host/sessions/{PLACE}.",
            )
        if (self.client_cert is None) != (self.client_key is None):
            raise ConfigError("--tls-cert, --tls-key: expected both or neither, found one.", "give the other, too.")


class SessionService:
    """The service's client: connections are kept and used again. To be closed by `close`."""

    def __init__(self, config: ServiceConfig) -> None:
        """Raises ConfigError for certificates or a token that cannot be read."""
        config.check()
        self.config = config
        self._token = None if config.bearer_token_file is None else Token(config.bearer_token_file)
        self._tls = tls_context(config)
        self._idle: list[httpx.AsyncClient] = []

    async def ask(self, session: bytes, timeout_s: float) -> CallResult:
        """One attempt. Never raises but for being cancelled."""
        client = self._idle.pop() if self._idle else self._new_client()
        try:
            async with asyncio.timeout(timeout_s), client.stream("GET", self._url(session), headers=self._auth()) as r:
                return await call_result(r)
        except TimeoutError:
            return Unavailable(f"no answer within {timeout_s:.3g} s")
        except httpx.InvalidURL as e:  # an id that makes no URL is that request's fault, not the service's
            return Unusable(f"InvalidURL: {e}", works=False)
        except (httpx.HTTPError, httpx.StreamError, OSError) as e:
            return Unavailable(f"{type(e).__name__}: {e}")
        finally:
            self._idle.append(client)

    async def close(self) -> None:
        """Once no call is under way."""
        for client in self._idle:
            await client.aclose()

    def _new_client(self) -> httpx.AsyncClient:
        """One for each connection, as many as there are calls at the same time, the last used first: a pool of a
        hundred looks at all of its connections for each call, which costs ten times as much as the calls."""
        return httpx.AsyncClient(
            verify=self._tls,
            timeout=None,  # the whole call has one, see `ask`
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    def _url(self, session: bytes) -> str:
        quoted = quote(session, safe="")
        if not quoted.strip("."):
            quoted = quoted.replace(".", "%2E")  # no way to another resource
        return self.config.url_template.replace(PLACE, quoted)

    def _auth(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token.read()}"}


async def call_result(response: httpx.Response) -> CallResult:
    status = response.status_code
    if status == HTTPStatus.OK:
        return _country(await _body(response))
    if status == HTTPStatus.NOT_FOUND:
        return NotFound()
    wait_s = retry_after_s(response.headers.get("Retry-After"))
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Refused(wait_s)
    if response.is_server_error or status in NOT_LET_IN or status == HTTPStatus.REQUEST_TIMEOUT:
        return Unavailable(f"HTTP {status}", wait_s)
    return Unusable(f"HTTP {status}", works=True)


async def _body(response: httpx.Response) -> bytes:
    """Of no more than is needed to see that it is too long."""
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > MAX_BYTES:
            break
    return body


def _country(body: bytes) -> CallResult:
    """A page in place of JSON may come from a proxy: it does not show that the service works."""
    if len(body) > MAX_BYTES:
        return Unusable(f"an answer of more than {MAX_BYTES} bytes", works=False)
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return Unusable(f"no JSON: {body[:80]!r}", works=False)
    country = answer.get("clientCountryCode") if isinstance(answer, dict) else None
    if not isinstance(country, str) or not country or not _is_text(country):
        return Unusable("JSON without a text clientCountryCode", works=False)
    if len(country.encode()) > MAX_KEPT_BYTES:  # the job would refuse the reply, and the money wait for ever
        return Unusable(f"a clientCountryCode of more than {MAX_KEPT_BYTES} bytes", works=False)
    return Found(country)


def _is_text(text: str) -> bool:
    """Half of a surrogate pair is none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def tls_context(config: ServiceConfig) -> ssl.SSLContext:
    """Raises ConfigError."""
    try:
        context = ssl.create_default_context(cafile=config.ca_file)
        if config.client_cert is not None and config.client_key is not None:
            context.load_cert_chain(config.client_cert, config.client_key)
    except (OSError, ssl.SSLError) as e:
        raise ConfigError(
            f"--tls-ca, --tls-cert, --tls-key: expected certificates and a key in PEM, but {e}.",
            "check the paths and the files.",
        ) from None
    return context


class Token:
    """A bearer token in a file, read again when the file has changed: whoever renews it need not restart us."""

    def __init__(self, file: Path) -> None:
        """Raises ConfigError."""
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._text = ""
        try:
            self._load()
        except (OSError, ValueError) as e:
            raise ConfigError(
                f"--token-file {file}: expected a file with a token, but {e}.", "check the path."
            ) from None
        if not self._text:
            raise ConfigError(f"--token-file {file}: expected a token, found an empty file.", "write the token to it.")

    def read(self) -> str:
        """The newest that could be read: a file that is just being replaced keeps nobody from asking."""
        with contextlib.suppress(OSError, ValueError):
            self._load()
        return self._text

    def _load(self) -> None:
        stat = os.stat(self._file)
        version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if version != self._seen:
            self._text = self._file.read_text("ascii").strip() or self._text
            self._seen = version
