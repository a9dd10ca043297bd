"""The pages that describe the requests: `/openapi.json`, and `/docs` for people. FastAPI makes them from the declared
records. It takes no request itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastapi import FastAPI, Header, Query
from pydantic import BaseModel, Field

from moneystate.ingest.answers import headers_of, refusal
from moneystate.ingest.app import POST, ROOT
from moneystate.ingest.json_schemas import Schemas
from moneystate.ingest.refusals import STATUSES, Refused
from moneystate.ingest.topics import Topic

ABOUT: Final = "Records for Kafka. A record that was answered with 202 is in the log, on all in-sync replicas."
LINES: Final = "application/x-ndjson"


class Accepted(BaseModel):
    """Describes where a record is."""

    partition: int
    offset: int


class Problem(BaseModel):
    index: int | None = Field(None, description="Of the record, if the request has a list.")
    field: str = Field(description="A path; empty: the record itself.")
    problem: str


class Refusal(BaseModel):
    error: str = Field(description="A code that clients can rely on.")
    message: str
    problems: list[Problem] | None = None


class AcceptedList(BaseModel):
    records: list[Accepted]


class EachAnswered(BaseModel):
    """The answers are in the order of the records."""

    records: list[Accepted | Refusal]


def pages(topics: Iterable[Topic]) -> FastAPI:
    app = FastAPI(title="moneystate ingest", description=ABOUT, version="1", redoc_url=None)
    schemas = Schemas()
    for topic in topics:
        app.add_api_route(
            ROOT + topic.name,
            _described,
            methods=[POST],
            status_code=202,
            response_model=Accepted | AcceptedList,
            summary=f"Write to {topic.name}",
            operation_id=f"write_{topic.name}",
            responses={207: {"model": EachAnswered, "description": "Some records were refused."}, **_refusals()},
            openapi_extra={"requestBody": {"required": True, "content": _content(schemas, topic)}},
        )
    _add_schemas(app, schemas)
    return app


async def _described(
    partial: bool = Query(False, description="Take the valid records of a list, and answer by index."),
    idempotency_key: str | None = Header(None, description="The same key is written once within an hour."),
) -> Accepted:
    """One JSON record, an array of them, or NDJSON. Without `partial`, a list is written as a whole or not at all."""
    raise NotImplementedError  # `app.Ingest` takes these requests


def _content(schemas: Schemas, topic: Topic) -> dict[str, Any]:
    record = schemas.of_topic(topic.records)
    return {
        "application/json": {"schema": {"oneOf": [record, {"type": "array", "items": record, "minItems": 1}]}},
        LINES: {"schema": {"type": "string", "description": "One record in each line."}},
    }


def _refusals() -> dict[int | str, dict[str, Any]]:
    statuses = sorted(set(STATUSES.values()))
    return {
        status: {"model": Refusal, "description": ", ".join([c for c, s in STATUSES.items() if s == status])}
        for status in statuses
    }


def _add_schemas(app: FastAPI, schemas: Schemas) -> None:
    """The records' own schemas, beside those of the answers."""
    described = app.openapi()
    described["components"]["schemas"].update(schemas.by_name)
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
    described["security"] = [{"token": []}, {}]
    app.openapi_schema = described


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """Answers paths that lead nowhere, if there are no pages."""
    answer = refusal(Refused("UNKNOWN_TOPIC", "expected a path below /v1/."))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers_of(answer)})
    await send({"type": "http.response.body", "body": answer.body})
