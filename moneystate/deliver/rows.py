"""The rows of the tables `endpoints` and `subscriptions`, and the rules that they must keep."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from yarl import URL

from moneystate.deliver import headers
from moneystate.deliver.batches import Limits
from moneystate.deliver.envelopes import Format

SECRET_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # never a path
_MOST_SECRETS: Final = 5
_MOST_HEADERS: Final = 20
_MOST_URL: Final = 2_000

Member = TypeVar("Member", bound=StrEnum)


class InvalidRow(Exception):
    """The row breaks a rule. Its text says which, without a value of the row."""


class Ordering(StrEnum):
    NONE = "none"
    ALL = "all"
    TENANT = "tenant"


class Mode(StrEnum):
    SINGLE = "single"
    BATCH = "batch"


class AuthKind(StrEnum):
    NONE = "none"
    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Auth:
    kind: AuthKind = AuthKind.NONE
    secret: str = ""  # name of the secret with the token, `user:password` or value
    header: str = ""  # its name


@dataclass(frozen=True, slots=True)
class Endpoint:
    endpoint_id: str
    owner: str
    url: str
    secrets: tuple[str, ...] = ()  # names; each signs
    auth: Auth = Auth()
    headers: Mapping[str, str] = field(default_factory=dict)
    max_in_flight: int = 4
    rate_per_second: float | None = None
    timeout_ms: int = 15_000
    is_paused: bool = False
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Subscription:
    """Holds what a worker needs of a subscription. The router reads its other fields."""

    subscription_id: str
    endpoint_id: str
    owner: str
    mode: Mode = Mode.SINGLE
    format: Format = Format.ARRAY
    limits: Limits = field(default_factory=Limits)
    ordering: Ordering = Ordering.NONE
    is_active: bool = True


@dataclass(frozen=True)
class UrlRules:
    """Describes which URLs a row may have."""

    allow_http: bool = False

    def check(self, text: str) -> None:
        """Raises InvalidRow."""
        try:
            url = URL(text)
        except ValueError:
            raise InvalidRow("url is not valid") from None
        if url.scheme != "https" and not (self.allow_http and url.scheme == "http"):
            raise InvalidRow("url is not https")
        if not url.raw_host or len(text) > _MOST_URL or any(ord(char) < 0x21 for char in text):
            raise InvalidRow("url is not valid")
        if "@" in re.split(r"[/?#\\]", text.split("//", 1)[1], maxsplit=1)[0]:
            raise InvalidRow("url has a user")


def endpoint(value: bytes, rules: UrlRules) -> Endpoint:
    """Raises InvalidRow."""
    row = _Row(value)
    made = Endpoint(
        endpoint_id=row.text("endpointId"),
        owner=row.text("owner"),
        url=row.text("url"),
        secrets=row.names("secrets"),
        auth=_auth(row),
        headers=_headers(row),
        max_in_flight=row.number("maxInFlight", 4, 1, 1_000),
        rate_per_second=row.rate("ratePerSecond"),
        timeout_ms=row.number("timeoutMs", 15_000, 100, 60_000),
        is_paused=row.flag("paused", False),
        is_deleted=row.flag("deleted", False),
    )
    rules.check(made.url)
    return made


def subscription(value: bytes) -> Subscription:
    """Raises InvalidRow."""
    row = _Row(value)
    return Subscription(
        subscription_id=row.text("subscriptionId"),
        endpoint_id=row.text("endpointId"),
        owner=row.text("owner"),
        mode=row.choice("mode", Mode.SINGLE),
        format=row.choice("batchFormat", Format.ARRAY),
        limits=Limits(
            max_messages=row.number("maxMessages", 1_000, 1, 10_000),
            max_bytes=row.number("maxBytes", 1_000_000, 1, 10_000_000),
            max_wait_ms=row.number("maxWaitMs", 1_000, 0, 60_000),
        ),
        ordering=row.choice("ordering", Ordering.NONE),
        is_active=row.flag("active", True),
    )


def _auth(row: _Row) -> Auth:
    given = row.fields.get("auth")
    if given is None:
        return Auth()
    fields = _Row(given)
    kind = fields.choice("kind", AuthKind.NONE)
    if kind is AuthKind.NONE:
        return Auth()
    name = fields.text("header") if kind is AuthKind.HEADER else ""
    refused = headers.refusal(name, "") if name else ""
    if refused:
        raise InvalidRow(refused)
    return Auth(kind, _secret_name(fields.text("secret")), name)


def _headers(row: _Row) -> dict[str, str]:
    given = row.fields.get("headers")
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > _MOST_HEADERS:
        raise InvalidRow(f"headers is not an object with up to {_MOST_HEADERS} fields")
    for name, value in given.items():
        if not isinstance(value, str):
            raise InvalidRow("a header's value is not a text")
        refused = headers.refusal(name, value)
        if refused:
            raise InvalidRow(refused)
    if len({name.lower() for name in given}) < len(given):
        raise InvalidRow("a header is given twice")
    return given


def _secret_name(name: str) -> str:
    if not SECRET_NAME.fullmatch(name):
        raise InvalidRow("the name of a secret is not valid")
    return name


class _Row:
    """Reads the fields of a row. An absent field has its default, and so has null."""

    def __init__(self, value: object) -> None:
        if isinstance(value, bytes):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise InvalidRow("it is not JSON") from None
        if not isinstance(value, dict):
            raise InvalidRow("it is not an object")
        self.fields: Mapping[str, Any] = value

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidRow(f"{name} is not a text")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        given = self.fields.get(name)
        if given is None:
            return ()
        if not isinstance(given, list) or len(given) > _MOST_SECRETS or not all(isinstance(one, str) for one in given):
            raise InvalidRow(f"{name} is not a list of up to {_MOST_SECRETS} names")
        return tuple(_secret_name(one) for one in given)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidRow(f"{name} is not a whole number from {least} to {most}")
        return value

    def rate(self, name: str) -> float | None:
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.001 <= value <= 100_000:
            raise InvalidRow(f"{name} is not a number from 0.001 to 100000")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InvalidRow(f"{name} is neither true nor false")
        return value

    def choice(self, name: str, default: Member) -> Member:
        value = self.fields.get(name)
        if value is None:
            return default
        try:
            return type(default)(value)
        except ValueError:
            raise InvalidRow(f"{name} is not one of {', '.join(type(default))}") from None
