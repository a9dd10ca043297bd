"""Events from Kafka records: CloudEvents in binary mode, or JSON with its attributes in other places."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring as quote
from typing import Any, Final, NoReturn

import moneystate as ms
from moneystate.engine.inputs import hash_of, is_pattern
from services.delivery.config import HEADER, Events
from services.delivery.records import Event

CLOUD_EVENTS: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
JSON_TYPE: Final = "application/json"
# The first five are fields of their own. Workers write the others themselves.
_OWN: Final = ("id", "source", "type", "tenant", "department", "specversion", "sequence")
_OWN_HEADERS: Final = frozenset(CLOUD_EVENTS + name for name in _OWN)

ReadText = Callable[[ms.Message, Any], str]  # of a message and its body; empty: it has none


def event_decoder(events: Events, number: int) -> Callable[[ms.Message], Event]:
    """`number`: of the input in the configuration."""
    read_id, read_source, read_type, read_tenant, read_department = (
        _reader(getattr(events, name) or HEADER + CLOUD_EVENTS + name) for name in _OWN[:5]
    )
    has_hash = is_pattern(events.topic)

    def decode(message: ms.Message) -> Event:
        """Raises ValueError and Reject, which make dead letters."""
        if message.value is None:
            raise ms.Reject("null_value")
        body = document(message.value)
        event_id, source = read_id(message, body), read_source(message, body)
        if not event_id:
            raise ms.Reject("no_id", f"expected an id in {events.id or HEADER + 'ce_id'}, found none")
        tenant = read_tenant(message, body) or None
        return Event(
            key=tenant or _key(message.key) or event_id,
            identity=f"[{quote(message.topic)},{quote(source)},{quote(tenant or '')},{quote(event_id)}]",
            input=number,
            number=message.partition + (hash_of(message.topic) if has_hash else 0),
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            id=event_id,
            source=source,
            type=read_type(message, body) or message.topic,
            tenant=tenant,
            department=read_department(message, body) or None,
            content_type=_header(message.headers, CONTENT_TYPE) or JSON_TYPE,
            body=message.value,
            extensions={
                name.removeprefix(CLOUD_EVENTS): _header(message.headers, name)
                for name in message.headers
                if name.startswith(CLOUD_EVENTS) and name not in _OWN_HEADERS
            },
        )

    return decode


def document(body: bytes) -> Any:
    """Raises ValueError unless the body is JSON in UTF-8, as RFC 8259 has it."""
    try:
        return _JSON.decode(body.decode())
    except RecursionError:
        raise ValueError("JSON with too many levels") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse)  # json.loads would make one for each body


def _reader(place: str) -> ReadText:
    if place.startswith(HEADER):
        name = place.removeprefix(HEADER)
        return lambda message, body: _header(message.headers, name)
    path = place.split(".")
    return lambda message, body: _field(body, path)


def _header(headers: Mapping[str, bytes | None], name: str) -> str:
    value = headers.get(name)
    try:
        return "" if value is None else value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"header {name}: not UTF-8") from None


def _field(body: Any, path: list[str]) -> str:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    if body is None:
        return ""
    if isinstance(body, (bool, float)) or not isinstance(body, (str, int)):
        raise ValueError(f"{'.'.join(path)}: expected a text or a whole number")
    text = str(body)
    text.encode()  # half of a surrogate pair is no text
    return text


def _key(key: bytes | None) -> str:
    """The Kafka key as text. One that is not UTF-8 is hexadecimal."""
    try:
        return (key or b"").decode()
    except UnicodeDecodeError:
        return (key or b"").hex()
