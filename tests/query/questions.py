"""Questions to the server of the market's story. ann moves from ES to PT at version 1, and the story ends with
version 2."""

from __future__ import annotations

import json
from typing import Any

from moneystate.serving.state.served import ServedService
from moneystate.state.v1 import header_pb2, state_pb2
from tests.api.services.market import Moved
from tests.query import market_story
from tests.query.market_story import MarketJob

Request = tuple[str, Any]

SERVICES = [service.full_name for service in ServedService(market_story.SERVICE).services]


def at(batch: int, epoch: str = market_story.EPOCH) -> header_pb2.At:
    return header_pb2.At(version=header_pb2.Version(epoch=epoch, batch=batch))


def path(call: str) -> str:
    """Looks a call's path up by the client's name for it."""
    service = next(name for name in SERVICES if name.endswith("." + call.partition(".")[0]))
    return f"/{service}/{call.partition('.')[2]}"


def move(job: MarketJob, country: str, second: int) -> None:
    """Ann to a country, by a batch up to a second."""
    at_ms = second * market_story.S
    job.batch(at_ms, Moved("ann", country, 1, at_ms - 1))


def get(key: str, **more: Any) -> Request:
    return "State.Get", state_pb2.GetRequest(name=state_pb2.RecordName(state="seller", key=key), **more)


def country(answer: state_pb2.GetResponse) -> str:
    return _country(answer.records[0])


def listing(prefix: str = "", **more: Any) -> Request:
    request = state_pb2.ListRequest(state="seller", keys=state_pb2.KeyRange(prefix=prefix), **more)
    return "State.List", request


def other_listing(**more: Any) -> Request:
    return "State.ListEntries", state_pb2.ListEntriesRequest(map="offers", key="ann", **more)


def watch(**more: Any) -> Request:
    return "State.Watch", state_pb2.WatchRequest(**more)


def changed(answer: state_pb2.WatchResponse) -> list[tuple[str, str]]:
    """Keys and countries."""
    return [(r.name.key, _country(r)) for r in answer.changes if r.name.state == "seller"]


def _country(record: state_pb2.Record) -> str:
    return str(json.loads(record.json)["country"]) if record.HasField("json") else ""
