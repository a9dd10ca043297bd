"""The requests. FastAPI makes `/openapi.json` from them, and `/docs` for people."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Query, Request, Response

from moneystate.deliver import statuses
from moneystate.deliver.breaker import Breaker
from moneystate.deliver.history import (
    LOG,
    UNDELIVERED,
    Command,
    LogRecord,
    Redeliver,
    Resume,
    SendTest,
    plain,
    plain_delivery,
)
from moneystate.deliver.interface import models as m
from moneystate.deliver.interface import pages
from moneystate.deliver.interface.documents import Document, shown_endpoint
from moneystate.deliver.interface.owned import OWNER
from moneystate.deliver.interface.pages import Page
from moneystate.deliver.interface.refusals import STATUSES, Refused
from moneystate.deliver.interface.routing import AuditedRoute, Limited, Parts, Reader, Using, Writer, answer_of

ABOUT: Final = "Endpoints of customers, what they subscribe to, and what became of their messages."
DELIVERIES: Final = "deliveries"
MOST_ITEMS: Final = 1_000
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": m.Problem, "description": ", ".join(code for code, its in STATUSES.items() if its == status)}
    for status in sorted(set(STATUSES.values()))
}
After = Annotated[int, Query(ge=0, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS)]
Since = Annotated[int | None, Query(ge=0, description="Where the first page begins, in milliseconds since 1970.")]

router = APIRouter(prefix="/v1", route_class=AuditedRoute, responses=PROBLEMS)


def application(parts: Parts) -> Any:
    """An ASGI application."""
    app = FastAPI(title="moneystate deliver", description=ABOUT, version="1", redoc_url=None)
    app.state.parts = parts
    app.include_router(router)
    app.add_exception_handler(404, _no_path)
    app.add_exception_handler(405, _no_method)
    described = app.openapi()
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
    described["security"] = [{"token": []}, {}]
    return Limited(app)


async def _no_path(_request: Request, _e: Exception) -> Response:
    return answer_of(Refused("NOT_FOUND", "expected a path of /openapi.json."))


async def _no_method(_request: Request, _e: Exception) -> Response:
    return answer_of(Refused("METHOD_NOT_ALLOWED", "expected another method."))


@router.get("/health", status_code=204)
def health(parts: Using) -> None:
    """Whether tables can be read and changed. It needs no token."""
    parts.owned.check_health()


# Endpoints


@router.get("/endpoints")
def list_endpoints(parts: Using, rights: Reader) -> list[m.ShownEndpoint]:
    """Those of the token's owner; with `delivery.admin`, all."""
    return [_shown(document) for document in parts.owned.endpoints(rights)]


@router.post("/endpoints", status_code=201)
def create_endpoint(parts: Using, caller: Writer, body: m.NewEndpoint) -> m.ShownEndpoint:
    return _shown(parts.owned.create_endpoint(caller.rights, _given(body)))


@router.get("/endpoints/{endpoint_id}")
def read_endpoint(parts: Using, rights: Reader, endpoint_id: str) -> m.ShownEndpoint:
    return _shown(parts.owned.endpoint(rights, endpoint_id))


@router.put("/endpoints/{endpoint_id}")
def replace_endpoint(parts: Using, caller: Writer, endpoint_id: str, body: m.ReplacedEndpoint) -> m.ShownEndpoint:
    return _shown(parts.owned.replace_endpoint(caller.rights, endpoint_id, _given(body)))


@router.delete("/endpoints/{endpoint_id}", status_code=204)
def delete_endpoint(parts: Using, caller: Writer, endpoint_id: str) -> None:
    """Its pending messages are cancelled."""
    parts.owned.delete_endpoint(caller.rights, endpoint_id)


@router.get("/endpoints/{endpoint_id}/status")
def endpoint_status(parts: Using, rights: Reader, endpoint_id: str) -> m.EndpointStatus:
    """Returns what workers last said of it."""
    parts.owned.endpoint(rights, endpoint_id)
    its: Breaker = parts.pages.last(statuses.STATUSES, endpoint_id, pages.status) or Breaker()
    return m.EndpointStatus(
        status=its.status.value, reason=its.reason, failures=its.failures, failingSince=its.failing_since_ms
    )


# Subscriptions


@router.get("/subscriptions")
def list_subscriptions(parts: Using, rights: Reader, endpoint: str | None = None) -> list[m.ShownSubscription]:
    """Those of the token's owner, perhaps of one endpoint."""
    return [_subscription(document) for document in parts.owned.subscriptions(rights, endpoint)]


@router.post("/subscriptions", status_code=201)
def create_subscription(parts: Using, caller: Writer, body: m.NewSubscription) -> m.ShownSubscription:
    """It begins with the next event. Its owner is that of the endpoint."""
    return _subscription(parts.owned.create_subscription(caller.rights, _given(body)))


@router.get("/subscriptions/{subscription_id}")
def read_subscription(parts: Using, rights: Reader, subscription_id: str) -> m.ShownSubscription:
    return _subscription(parts.owned.subscription(rights, subscription_id))


@router.put("/subscriptions/{subscription_id}")
def replace_subscription(
    parts: Using, caller: Writer, subscription_id: str, body: m.SubscriptionFields
) -> m.ShownSubscription:
    return _subscription(parts.owned.replace_subscription(caller.rights, subscription_id, _given(body)))


@router.delete("/subscriptions/{subscription_id}", status_code=204)
def delete_subscription(parts: Using, caller: Writer, subscription_id: str) -> None:
    """Its pending messages are cancelled."""
    parts.owned.delete_subscription(caller.rights, subscription_id)


# Secrets


@router.get("/owners/{owner}/secrets")
def list_secrets(parts: Using, rights: Reader, owner: str) -> list[str]:
    """Their names."""
    return parts.keys.names(rights, owner)


@router.put("/owners/{owner}/secrets/{name}")
def put_secret(parts: Using, caller: Writer, owner: str, name: str, body: m.SecretValue) -> m.MadeSecret:
    """Workers use it within a second or two."""
    made = parts.keys.put(caller.rights, owner, name, body.value)
    return m.MadeSecret(name=made.name, value=made.value or None)


@router.delete("/owners/{owner}/secrets/{name}", status_code=204)
def delete_secret(parts: Using, caller: Writer, owner: str, name: str) -> None:
    parts.keys.delete(caller.rights, owner, name)


@router.post("/endpoints/{endpoint_id}/secrets", status_code=201)
def rotate_secret(parts: Using, caller: Writer, endpoint_id: str, body: m.SecretValue) -> m.MadeSecret:
    """Adds a secret that signs. Messages have a signature of each until the old one is deleted."""
    made = parts.keys.rotate(caller.rights, endpoint_id, body.value)
    return m.MadeSecret(name=made.name, value=made.value or None)


@router.delete("/endpoints/{endpoint_id}/secrets/{name}", status_code=204)
def retire_secret(parts: Using, caller: Writer, endpoint_id: str, name: str) -> None:
    parts.keys.retire(caller.rights, endpoint_id, name)


# Messages


@router.get("/endpoints/{endpoint_id}/undelivered")
def undelivered(
    parts: Using, rights: Reader, endpoint_id: str, after: After = 0, limit: Limit = 100, since: Since = None
) -> m.Messages:
    """Returns what could not be delivered, in the order in which it ended."""
    parts.owned.endpoint(rights, endpoint_id)
    page = parts.pages.page(
        UNDELIVERED, endpoint_id,
        pages.undelivered(lambda its: rights.sees(its.tenant)), after, limit, since,
    )  # fmt: skip
    return _messages(page, [{**plain_delivery(its.delivery), **plain(its)} for its in page.items])


@router.get("/endpoints/{endpoint_id}/messages")
def messages(
    parts: Using, rights: Reader, endpoint_id: str, after: After = 0, limit: Limit = 100, since: Since = None
) -> m.Messages:
    """All messages for the endpoint, delivered or not: for a customer who polls."""
    parts.owned.endpoint(rights, endpoint_id)
    read = pages.deliveries(parts.reader, lambda its: rights.sees(its.tenant))
    page = parts.pages.page(DELIVERIES, endpoint_id, read, after, limit, since)
    return _messages(page, [{**plain_delivery(its), "webhookId": its.delivery_id} for its in page.items])


@router.get("/endpoints/{endpoint_id}/messages/{webhook_id}/attempts")
def attempts(
    parts: Using, rights: Reader, endpoint_id: str, webhook_id: str, after: After = 0, limit: Limit = 100,
    since: Since = None,
) -> m.LogEntries:  # fmt: skip
    """Returns what the log has of a message or batch. Of a message in a batch, give its id and read from its cut on."""
    parts.owned.reachable(rights, endpoint_id)
    page: Page[LogRecord] = parts.pages.page(LOG, endpoint_id, pages.history(webhook_id), after, limit, since)
    return m.LogEntries(
        next=page.after, last=page.is_last, gap=page.is_gap, entries=[plain(entry) for entry in page.items]
    )


@router.post("/endpoints/{endpoint_id}/redeliver", status_code=202)
def redeliver(parts: Using, caller: Writer, endpoint_id: str, body: m.Redelivery) -> m.Asked:
    """Workers send these messages again, in a new run. A batch is sent whole, so the token needs all its tenants."""
    if not body.is_one():
        raise Refused("INVALID_REQUEST", "expected one of ids, since and until (later), and dead.")
    document = parts.owned.reachable(caller.rights, endpoint_id)
    id = f"cmd_{uuid.uuid4().hex}"
    return _ask(parts, Redeliver(
        id, endpoint_id, document[OWNER], caller.subject, parts.now_ms(), body.ids, body.since, body.until,
        bool(body.dead), caller.rights.tenant_list(),
    ))  # fmt: skip


@router.post("/endpoints/{endpoint_id}/test", status_code=202)
def send_test(parts: Using, caller: Writer, endpoint_id: str) -> m.Asked:
    """A worker sends a message of the type `moneystate.test`. The command's id is its webhook-id."""
    document = parts.owned.reachable(caller.rights, endpoint_id)
    id = f"test_{uuid.uuid4().hex}"
    return _ask(parts, SendTest(id, endpoint_id, document[OWNER], caller.subject, parts.now_ms()))


@router.post("/endpoints/{endpoint_id}/resume", status_code=202)
def resume(parts: Using, caller: Writer, endpoint_id: str) -> m.Asked:
    """Workers send to the endpoint again, although its breaker is open or it is disabled."""
    document = parts.owned.reachable(caller.rights, endpoint_id)
    id = f"cmd_{uuid.uuid4().hex}"
    return _ask(parts, Resume(id, endpoint_id, document[OWNER], caller.subject, parts.now_ms()))


def _ask(parts: Parts, command: Command) -> m.Asked:
    parts.commands.write(command)
    return m.Asked(commandId=command.command_id)


def _given(body: m.Body) -> Document:
    return body.model_dump(exclude_none=True)


def _shown(document: Document) -> m.ShownEndpoint:
    return m.ShownEndpoint(**shown_endpoint(document))


def _subscription(document: Document) -> m.ShownSubscription:
    return m.ShownSubscription(**document)


def _messages(page: Page[Any], items: list[dict[str, Any]]) -> m.Messages:
    return m.Messages(
        next=page.after, last=page.is_last, gap=page.is_gap, messages=[m.Message(**item) for item in items]
    )
