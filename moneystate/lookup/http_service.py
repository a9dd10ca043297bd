"""Calls the HTTP service of a lookup, and interprets its answers."""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from moneystate.errors import ConfigError
from moneystate.http import HttpCall, HttpFailure, HttpReply, HttpSender, HttpUnsendable, ServiceUrl
from moneystate.retry_after import retry_after_s

MAX_BYTES = 64 * 1024  # of an answer
# The service rejects the caller, not the request. This counts as a failure of the service.
ACCESS_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


@dataclass(frozen=True, slots=True)
class Found:
    """An answer from which a reply can be made."""

    body: bytes


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
    """The call shows no sign that the service works."""

    reason: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Too many requests (429)."""

    retry_after_s: float | None


CallResult = Found | NotFound | Unusable | Unavailable | Refused
Problem = Callable[[bytes], str]  # why a body cannot be used; empty: it can


@dataclass(frozen=True)
class ServiceConfig:
    """Describes how to call the service. Files are PEM."""

    base_url: str  # the paths of the requests come behind it
    bearer_token_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    ca_file: Path | None = None

    def check(self) -> None:
        """Raises ConfigError."""
        url = self.url()
        if self.bearer_token_file is not None and url.headers:
            raise ConfigError(
                "--url, --token-file: expected a password in the URL or a token, found both.", "leave one out."
            )
        if (self.client_cert is None) != (self.client_key is None):
            raise ConfigError("--tls-cert, --tls-key: expected both or neither, found one.", "give the other, too.")

    def url(self) -> ServiceUrl:
        """Raises ConfigError."""
        url = None
        with contextlib.suppress(ValueError):
            url = ServiceUrl.parse(self.base_url)
        if url is None or any(mark in self.base_url for mark in "{}?#"):
            raise ConfigError(
                # The URL is left out, because it may have a password in it.
                "--url: expected an http or https URL before the lookup's path, found something else.",
                "for example https://host/v1: the service's declaration has the path.",
            )
        return url


class HttpService:
    """The service's client, for up to `most` calls at a time. Call `close` at the end."""

    def __init__(self, config: ServiceConfig, most: int) -> None:
        """Raises ConfigError for a URL, certificates or a token that cannot be used."""
        config.check()
        self._url = config.url()
        self._token = None if config.bearer_token_file is None else Token(config.bearer_token_file)
        self._sender = HttpSender(most, tls_context(config))

    async def ask(self, path: str, timeout_s: float, problem: Problem) -> CallResult:
        """Makes one attempt. `problem`: says why an answer's body cannot be used. Raises only CancelledError."""
        call = HttpCall(self._url.url.rstrip("/") + path, headers=self._headers(), max_reply_bytes=MAX_BYTES)
        try:
            return call_result(await self._sender.send(call, timeout_s), problem)
        except HttpUnsendable as e:  # caused by the request, not by the service
            return Unusable(e.reason, works=False)
        except HttpFailure as e:
            return Unavailable(e.reason)

    async def close(self) -> None:
        """Closes all connections. No call may be running."""
        await self._sender.close()

    def _headers(self) -> dict[str, str]:
        auth = self._url.headers if self._token is None else {"Authorization": f"Bearer {self._token.read()}"}
        return {"Accept": "application/json", **auth}


def call_result(reply: HttpReply, problem: Problem) -> CallResult:
    status = reply.status
    if status == HTTPStatus.OK:
        return _found(reply, problem)
    if status == HTTPStatus.NOT_FOUND:
        return NotFound()
    wait_s = retry_after_s(reply.headers.get("Retry-After"), time.time())
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Refused(wait_s)
    if reply.is_server_error or status in ACCESS_DENIED or status == HTTPStatus.REQUEST_TIMEOUT:
        return Unavailable(f"HTTP {status}", wait_s)
    return Unusable(f"HTTP {status}", works=True)


def _found(reply: HttpReply, problem: Problem) -> CallResult:
    """An HTML page may come from a proxy, so it does not show that the service works."""
    if reply.is_cut:
        return Unusable(f"the answer has more than {MAX_BYTES} bytes", works=False)
    reason = problem(reply.body)
    return Unusable(reason, works=False) if reason else Found(reply.body)


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
    """A bearer token in a file. It is read again when the file changes, so that a renewed token needs no restart."""

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
        """The newest token that could be read. While the file is being replaced, that is the previous token."""
        with contextlib.suppress(OSError, ValueError):
            self._load()
        return self._text

    def _load(self) -> None:
        stat = os.stat(self._file)
        version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if version != self._seen:
            self._text = self._file.read_bytes().removeprefix(BOM_UTF8).decode("ascii").strip() or self._text
            self._seen = version
