"""Which subscriptions an event matches.

The index of the subscriptions has a text for each pair of a type and a part of the scope. An event is looked up by a
few such texts: its type and each prefix of it, together with no tenant, its tenant, and its department. So a look-up
costs what it finds, however many subscriptions there are.

    text    type, 00, scope
    scope   A | T tenant | D length of tenant : tenant department

Rows have no 00 in types, tenants and departments. So the texts of an event that has one find nothing wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import moneystate as ms
from moneystate.api.tables import TableIndex
from services.delivery.records import Subscription
from services.delivery.rows import MAX_PARTS

_END: Final = "\x00"
ANY: Final = "*"
_OF_ALL: Final = "A"


def index_texts(row: Subscription) -> list[str] | None:
    """None: the row matches nothing."""
    if row.problem or not row.active:
        return None
    return [f"{type}{_END}{scope}" for type in row.types.value() for scope in _scopes(row.scope)]


def _scopes(scope: ms.Json | None) -> list[str]:
    if scope is None:
        return [_OF_ALL]
    made = []
    for part in scope.value():
        tenant, departments = part["tenant"], part.get("departments")
        made += [_of_tenant(tenant)] if departments is None else [_of_department(tenant, d) for d in departments]
    return made


def _of_tenant(tenant: str) -> str:
    return f"T{tenant}"


def _of_department(tenant: str, department: str) -> str:
    return f"D{len(tenant)}:{tenant}{department}"


def looked_up(type: str, tenant: str | None, department: str | None) -> list[str]:
    """The texts by which an event is looked up."""
    scopes = [_OF_ALL]
    if tenant is not None:
        scopes.append(_of_tenant(tenant))
        if department is not None:
            scopes.append(_of_department(tenant, department))
    return [f"{one}{_END}{scope}" for one in types_of(type) for scope in scopes]


@lru_cache(maxsize=10_000)
def types_of(type: str) -> list[str]:
    """The types of subscriptions that an event's type matches."""
    parts = type.split(".")
    prefixes = [".".join(parts[:n]) + ".*" for n in range(1, min(len(parts), MAX_PARTS + 1))]
    return [ANY, *prefixes, type]


def is_type_of(types: ms.Json, type: str) -> bool:
    return not set(types.value()).isdisjoint(types_of(type))


def candidates(
    table: ms.Table[Subscription], index: TableIndex[Subscription, str], type: str, tenant: str | None,
    department: str | None, as_of_ms: int | None = None,
) -> list[tuple[str, Subscription]]:  # fmt: skip
    """Subscriptions whose type and scope match, by id, in the order of ids. `as_of_ms`: None: the time of the step."""
    return table.find_any(index, looked_up(type, tenant, department), at=as_of_ms)


class Filter:
    """Holds what the fields of a body must be."""

    def __init__(self, fields: Mapping[str, frozenset[Any]]) -> None:
        self.fields = fields

    def matches(self, body: Mapping[str, Any]) -> bool:
        """`body`: as `filtered_body` makes it."""
        return all(name in body and _scalar(body[name]) in wanted for name, wanted in self.fields.items())


@lru_cache(maxsize=100_000)
def filter_of(text: str) -> Filter:
    """Reads a filter from the text of a row."""
    fields: dict[str, Any] = _JSON.decode(text)
    return Filter(
        {name: frozenset(map(_scalar, its if isinstance(its, list) else [its])) for name, its in fields.items()}
    )


def filtered_body(body: bytes) -> Mapping[str, Any]:
    """The fields of a body. One that is no object has none."""
    document = _JSON.decode(body.decode())
    return document if isinstance(document, dict) else {}


def _number(text: str) -> Any:
    try:
        return Decimal(text)
    except InvalidOperation:  # its exponent has some twenty digits
        return (text,)


_JSON: Final = json.JSONDecoder(parse_float=_number)


def _scalar(value: Any) -> Any:
    """Equal for equal values, numbers by value. Python has 1 and true equal. Objects and arrays equal nothing."""
    if isinstance(value, bool) or value is None:
        return (value,)
    return () if isinstance(value, (dict, list)) else value
