"""The conditions of a delivery, in the order in which they are looked at."""

from __future__ import annotations

from typing import Final

import moneystate as ms
from services.delivery.matching import filter_of, filtered_body, is_type_of
from services.delivery.records import Endpoint, Routed, Subscription

MATCHED: Final = "MATCHED"
NO_SUBSCRIPTION: Final = "NO_SUBSCRIPTION"
INVALID_SUBSCRIPTION: Final = "INVALID_SUBSCRIPTION"
INACTIVE: Final = "INACTIVE"
OTHER_TYPE: Final = "OTHER_TYPE"
OTHER_TENANT: Final = "OTHER_TENANT"
OTHER_DEPARTMENT: Final = "OTHER_DEPARTMENT"
FILTERED: Final = "FILTERED"
NO_ENDPOINT: Final = "NO_ENDPOINT"
INVALID_ENDPOINT: Final = "INVALID_ENDPOINT"
DELETED_ENDPOINT: Final = "DELETED_ENDPOINT"
OTHER_OWNER: Final = "OTHER_OWNER"


def outcome_of(event: Routed, row: Subscription | None, endpoint: Endpoint | None) -> str:
    """The first condition that failed, or MATCHED. The rows are those of the event's time."""
    if row is None:
        return NO_SUBSCRIPTION
    if row.problem:
        return INVALID_SUBSCRIPTION
    if not row.active:
        return INACTIVE
    if not is_type_of(row.types, event.type):
        return OTHER_TYPE
    failed = _failed_scope(row.scope, event)
    if failed:
        return failed
    if row.filter is not None and not filter_of(row.filter.text).matches(filtered_body(event.body or b"{}")):
        return FILTERED
    return NO_ENDPOINT if endpoint is None else failed_endpoint(row, endpoint) or MATCHED


def _failed_scope(scope: ms.Json | None, event: Routed) -> str:
    if scope is None:
        return ""
    mine = [part for part in scope.value() if part["tenant"] == event.tenant]
    if not mine:
        return OTHER_TENANT
    is_whole = any("departments" not in part or event.department in part["departments"] for part in mine)
    return "" if is_whole else OTHER_DEPARTMENT


def failed_endpoint(row: Subscription, endpoint: Endpoint) -> str:
    """Empty: nothing failed."""
    if endpoint.problem:
        return INVALID_ENDPOINT
    if endpoint.deleted:
        return DELETED_ENDPOINT
    return "" if endpoint.owner == row.owner else OTHER_OWNER
