"""Rows of the tables `endpoints` and `subscriptions`, as the router needs them.

A row that breaks a rule is a row with a problem. It replaces the row before it and matches nothing. The rules of fields
that the workers need are theirs (`moneystate.deliver.rows`). Those of types, scope and filter are here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import moneystate as ms
from moneystate.deliver import rows
from moneystate.deliver.rows import InvalidRow, UrlRules
from services.delivery.records import Endpoint, Subscription

MAX_TEXT: Final = 200
MAX_PARTS: Final = 16  # of a type that ends with .*
MAX_PAIRS: Final = 1_000  # of a type and a tenant or department
MAX_FILTER_FIELDS: Final = 20
MAX_FILTER_VALUES: Final = 100
ALL: Final = "all"
_TYPE: Final = re.compile(r"\*|[^\s*\x00]+?(\.\*)?")
_NOTHING: Final = ms.Json.of([])


def endpoint_decoder(allow_http: bool) -> Callable[[ms.Message], Endpoint]:
    rules = UrlRules(allow_http=allow_http)

    def decode(message: ms.Message) -> Endpoint:
        id = _key(message)
        try:
            row = rows.endpoint(message.value or b"", rules)
            _check_id("endpointId", row.endpoint_id, id)
            _check_texts(row.owner)
        except InvalidRow as e:
            return Endpoint(id, "", False, str(e), message.partition, message.offset)
        return Endpoint(id, row.owner, row.is_deleted, "", message.partition, message.offset)

    return decode


def decode_subscription(message: ms.Message) -> Subscription:
    id = _key(message)
    try:
        row = rows.subscription(message.value or b"")
        _check_id("subscriptionId", row.subscription_id, id)
        _check_texts(row.owner, row.endpoint_id)
        fields = json.loads(message.value or b"")
        types, scope = _types(fields.get("types")), _scope(fields.get("scope"))
        pairs = len(types) * (1 if scope is None else sum(len(one.get("departments") or " ") for one in scope))
        if pairs > MAX_PAIRS:
            raise InvalidRow(f"types times tenants and departments are more than {MAX_PAIRS:,}")
        filter = _filter(fields.get("filter"))
    except InvalidRow as e:
        return Subscription(id, "", "", _NOTHING, None, None, False, str(e), message.partition, message.offset)
    return Subscription(
        id, row.endpoint_id, row.owner, ms.Json.of(types), None if scope is None else ms.Json.of(scope),
        None if filter is None else ms.Json.of(filter), row.is_active, "", message.partition, message.offset,
    )  # fmt: skip


def _key(message: ms.Message) -> str:
    return (message.key or b"").decode()  # a table has no other keys


def _check_id(name: str, given: str, key: str) -> None:
    if given != key:
        raise InvalidRow(f"{name} is not the record's key")


def _check_texts(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidRow("a text has half of a surrogate pair") from None


def _types(given: Any) -> list[str]:
    if not isinstance(given, list) or not given:
        raise InvalidRow("types is not a list with one type or more")
    for type in given:
        if not isinstance(type, str) or len(type) > MAX_TEXT or not _TYPE.fullmatch(type):
            raise InvalidRow("a type is not like order.placed, order.* or *")
        if type.endswith(".*") and type.count(".") > MAX_PARTS:
            raise InvalidRow(f"a type that ends with .* has more than {MAX_PARTS} parts")
    _check_texts(*given)
    return sorted(set(given))


def _scope(given: Any) -> list[dict[str, Any]] | None:
    if given is None or given == ALL:
        return None
    if not isinstance(given, list) or not given:
        raise InvalidRow("scope is neither all nor a list with one tenant or more")
    return [_tenant(one) for one in given]


def _tenant(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or not given.keys() <= {"tenant", "departments"}:
        raise InvalidRow("a part of scope is not an object of tenant and departments")
    tenant, departments = given.get("tenant"), given.get("departments")
    _check_name("tenant", tenant)
    if departments is None:
        return {"tenant": tenant}
    if not isinstance(departments, list) or not departments:
        raise InvalidRow("departments is not a list with one department or more")
    for department in departments:
        _check_name("a department", department)
    return {"tenant": tenant, "departments": sorted(set(departments))}


def _check_name(title: str, name: Any) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT or "\x00" in name:
        raise InvalidRow(f"{title} is not a text of 1 to {MAX_TEXT} characters")
    _check_texts(name)


def _filter(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or len(given) > MAX_FILTER_FIELDS:
        raise InvalidRow(f"filter is not an object with up to {MAX_FILTER_FIELDS} fields")
    for name, wanted in given.items():
        _check_texts(name)
        values = wanted if isinstance(wanted, list) else [wanted]
        if len(values) > MAX_FILTER_VALUES:
            raise InvalidRow(f"a field of filter has more than {MAX_FILTER_VALUES} values")
        for value in values:
            if isinstance(value, (dict, list)):
                raise InvalidRow("filter has a value that is neither a text, a number, true, false nor null")
            if isinstance(value, float) and value - value != 0:
                raise InvalidRow("filter has a number that is out of range")
            if isinstance(value, str):
                _check_texts(value)
    return given or None
