"""The request of an attempt: of a single event, or of a batch."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moneystate.deliver.attempts import Request
from moneystate.deliver.envelopes import Format, body, envelope
from moneystate.deliver.headers import BATCH_TYPE, LINES_TYPE, event_headers
from moneystate.deliver.records import Delivery
from moneystate.deliver.rows import AuthKind, Endpoint
from moneystate.deliver.signing import key_of, signed

TYPES: Final = {Format.ARRAY: BATCH_TYPE, Format.NDJSON: LINES_TYPE}


class NoSecret(Exception):
    """A secret that the endpoint's row names has no value, or not one that can sign. The message names it."""


@dataclass(frozen=True, slots=True)
class Message:
    """Holds what is sent under one id, in every attempt: `members` are one delivery, or those of a batch."""

    webhook_id: str
    members: Sequence[Delivery]
    format: Format | None  # None: a single event

    @property
    def content(self) -> bytes:
        if self.format is None:
            return self.members[0].body
        return body([envelope(one) for one in self.members], self.format)

    def headers(self) -> dict[str, str]:
        if self.format is None:
            only = self.members[0]
            return {"content-type": only.content_type, **event_headers(only)}
        return {"content-type": TYPES[self.format]}


def named_secrets(endpoint: Endpoint) -> list[str]:
    """The names of the owner's secrets that a request needs."""
    used = [*endpoint.secrets, *([endpoint.auth.secret] if endpoint.auth.secret else [])]
    return list(dict.fromkeys(used))


def request_of(message: Message, endpoint: Endpoint, secrets: Mapping[str, str], now_ms: int) -> Request:
    """The request of an attempt at `now_ms`. `secrets`: values by name, as far as there are any. Raises NoSecret."""
    keys = [_key(name, secrets) for name in endpoint.secrets]
    content = message.content
    headers = {
        **endpoint.headers,
        **message.headers(),
        **_authorization(endpoint, secrets),
        **signed(keys, message.webhook_id, now_ms, content),
    }
    return Request(endpoint.url, headers, content, endpoint.timeout_ms, _hidden(endpoint, secrets))


def _hidden(endpoint: Endpoint, secrets: Mapping[str, str]) -> tuple[str, ...]:
    """Returns what no answer that is kept may show, in each form that a request has."""
    values = [secrets[name] for name in named_secrets(endpoint)]
    if endpoint.auth.kind is AuthKind.BASIC:
        values.append(_base64(secrets[endpoint.auth.secret]))
    return tuple(values)


def _key(name: str, secrets: Mapping[str, str]) -> bytes:
    try:
        return key_of(_value(name, secrets))
    except ValueError as e:
        raise NoSecret(f"secret {name}: {e}") from None


def _value(name: str, secrets: Mapping[str, str]) -> str:
    if name not in secrets:
        raise NoSecret(f"secret {name} has no value")
    return secrets[name]


def _authorization(endpoint: Endpoint, secrets: Mapping[str, str]) -> dict[str, str]:
    auth = endpoint.auth
    if auth.kind is AuthKind.NONE:
        return {}
    value = _value(auth.secret, secrets)
    if not value.isascii() or not value.isprintable():
        raise NoSecret(f"secret {auth.secret} is not printable ASCII")
    if auth.kind is AuthKind.HEADER:
        return {auth.header: value}
    if auth.kind is AuthKind.BASIC:
        return {"authorization": f"Basic {_base64(value)}"}
    return {"authorization": f"Bearer {value}"}


def _base64(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
