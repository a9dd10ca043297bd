"""The records of the topics `delivery-log`, `undelivered` and `delivery-commands`: this module alone knows their form.

All have the endpoint's id as the key, and are in the partition that it has in `deliveries`. A value is a JSON object.
Its field `kind` says which record it is. A webhook-id is the id of a delivery, or that of a batch, whose members its
cut names. A delivery begins with run 1. Each redelivery begins another run.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeAlias

from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.records import Delivery, NotADelivery, from_fields

LOG, UNDELIVERED, COMMANDS = "delivery-log", "undelivered", "delivery-commands"
KIND: Final = "kind"
RECORD_BYTES: Final = 12 * 1024 * 1024  # the largest: one that holds a delivery of 8 MiB, with its event in Base64


class NotARecord(Exception):
    """The value is none of these records. Its text says why, without a value of the record."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A batch. It is in the log before its first attempt."""

    webhook_id: str
    endpoint_id: str
    subscription_id: str
    format: str
    members: list[str]  # ids of deliveries, in the order of the body
    at_ms: int
    replaces: str = ""  # webhook-id of a batch that was too large for the receiver. It has no outcome of its own


@dataclass(frozen=True, slots=True)
class Attempt:
    webhook_id: str
    endpoint_id: str
    subscription_id: str
    run: int
    number: int  # of the attempt in its run, from 1
    at_ms: int
    took_ms: int
    status: int | None  # None: there was no answer
    problem: str = ""
    answer: str = ""  # the beginning of the answer's body


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a run."""

    webhook_id: str
    endpoint_id: str
    subscription_id: str
    run: int
    outcome: Outcome
    at_ms: int
    attempts: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Redelivered:
    """Begins a run."""

    webhook_id: str
    endpoint_id: str
    subscription_id: str
    run: int
    at_ms: int
    command_id: str


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A message that was not delivered, for its endpoint's owner to fetch. A batch has a record for each member."""

    webhook_id: str
    run: int
    outcome: Outcome
    at_ms: int
    attempts: int
    delivery: Delivery
    status: int | None = None  # of the last attempt
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Asks for another run of messages that have ended: those of `ids` (deliveries or webhook-ids), those that ended
    from `since_ms` to before `until_ms`, or with `is_dead` all whose last outcome is DEAD or OVERFLOW."""

    command_id: str
    endpoint_id: str
    owner: str
    by: str  # subject of the token
    at_ms: int
    ids: list[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    is_dead: bool = False
    tenants: list[str] | None = None  # None: of all tenants, and without one


@dataclass(frozen=True, slots=True)
class SendTest:
    """Asks for a message that shows an owner whether an endpoint works. It has one attempt, and no outcome."""

    command_id: str  # also its webhook-id
    endpoint_id: str
    owner: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Asks workers to send to an endpoint again, although its breaker is open or it is disabled."""

    command_id: str
    endpoint_id: str
    owner: str
    by: str
    at_ms: int


LogRecord: TypeAlias = Cut | Attempt | Ended | Redelivered
Command: TypeAlias = Redeliver | SendTest | Resume
Record: TypeAlias = LogRecord | Command | Undelivered
_KINDS: Final[dict[str, type[Record]]] = {
    "cut": Cut, "attempt": Attempt, "ended": Ended, "redelivered": Redelivered, "undelivered": Undelivered,
    "redeliver": Redeliver, "test": SendTest, "resume": Resume,
}  # fmt: skip
_NAMES: Final = {type: kind for kind, type in _KINDS.items()}
_TYPES: Final[dict[str, Any]] = {
    "str": str, "int": int, "bool": bool, "list[str]": list, "int | None": int | None, "list[str] | None": list | None,
    "Outcome": Outcome, "Delivery": Delivery,
}  # fmt: skip


def to_json(record: Record) -> bytes:
    """The value of a record."""
    content = plain(record)
    if isinstance(record, Undelivered):
        content["delivery"] = plain_delivery(record.delivery)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def plain(record: Record) -> dict[str, Any]:
    """A record as JSON has it, without a delivery in it."""
    content = {key: getattr(record, name) for name, key, kind in _FIELDS[type(record)] if kind is not Delivery}
    return {KIND: _NAMES[type(record)], **content}


def from_json(value: bytes | None) -> Record:
    """Raises NotARecord."""
    try:
        content = json.loads(value or b"")
        type = _KINDS[content[KIND]]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NotARecord("it is not JSON, or of an unknown kind") from None
    given: dict[str, Any] = {}
    for name, key, wanted in _FIELDS[type]:
        if key not in content:
            continue  # an optional one, or the constructor misses it
        value_of = content[key]
        if wanted in _READ:
            value_of = _READ[wanted](value_of)
        elif not isinstance(value_of, wanted) or (wanted is int and isinstance(value_of, bool)):
            raise NotARecord(f"its field {key} is of another type")
        given[name] = value_of
    try:
        record: Record = type(**given)
    except TypeError:
        raise NotARecord("it lacks a field") from None
    return record


def plain_delivery(its: Delivery) -> dict[str, Any]:
    """A delivery as JSON has it; bytes are Base64."""
    content: dict[str, Any] = {_delivery_key(name): value for name, value in asdict(its).items() if name != "record"}
    return {**content, "body": base64.b64encode(its.body).decode()}


def delivery_from_plain(content: Any) -> Delivery:
    """Makes a delivery from what `plain_delivery` gives, decoded. Raises NotARecord."""
    try:
        return from_fields({**content, "body": base64.b64decode(content["body"], validate=True)})
    except (NotADelivery, ValueError, LookupError, TypeError):
        raise NotARecord("its delivery is none") from None


def _outcome(value: Any) -> Outcome:
    try:
        return Outcome(value)
    except ValueError:
        raise NotARecord("its outcome is none") from None


def _delivery_key(name: str) -> str:
    return "time" if name == "time_ms" else _camel(name)


def _camel(name: str) -> str:
    """`at_ms` is at, `is_dead` dead."""
    first, *rest = name.removesuffix("_ms").removeprefix("is_").split("_")
    return first + "".join(map(str.capitalize, rest))


_READ: Final[dict[Any, Callable[[Any], Any]]] = {Delivery: delivery_from_plain, Outcome: _outcome}
# name, key in JSON, and type of each field
_FIELDS: Final = {
    type: [(f.name, _camel(f.name), _TYPES[str(f.type)]) for f in fields(type)] for type in _KINDS.values()
}
