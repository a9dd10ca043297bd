"""The same questions to both contracts of the query server: the enrichment's and that of plain services."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moneystate.query.v1 import query_pb2, watch_pb2
from moneystate.serving.state.face import StateFace
from moneystate.state.v1 import header_pb2, state_pb2
from services.enrichment.serving.face import QueryFace
from tests.api.services.market import Moved
from tests.query import market_story, story
from tests.query.market_story import MarketJob
from tests.query.serving import Server
from tests.query.story import Job

Request = tuple[str, Any]


class Contract(NamedTuple):
    """Requests that both have, each with the name of its call. Both stories are about ann, who moves from ES to PT at
    version 1, and end with version 2."""

    name: str
    flags: Sequence[str]  # of a server
    services: Sequence[str]
    epoch: str
    changed_later: set[str]  # keys, by version 2
    job: Callable[[Any], Any]
    begin: Callable[[Any], None]
    go_on: Callable[[Any], None]
    move: Callable[[Any, str, int], None]  # ann to a country, by a batch up to a second
    get: Callable[..., Request]
    country: Callable[[Any], str]  # by the answer of `get`
    listing: Callable[..., Request]
    other_listing: Callable[..., Request]
    watch: Callable[..., Request]
    watch_key: Callable[..., Request]
    changed: Callable[[Any], list[tuple[str, str]]]  # keys and countries, by an answer of `watch`

    def at(self, batch: int, epoch: str | None = None) -> header_pb2.At:
        version = header_pb2.Version(epoch=self.epoch if epoch is None else epoch, batch=batch)
        return header_pb2.At(version=version)

    def path(self, call: str) -> str:
        """Looks a call's path up by the client's name for it."""
        service = next(name for name in self.services if name.endswith("." + call.partition(".")[0]))
        return f"/{service}/{call.partition('.')[2]}"


class Told(NamedTuple):
    server: Server
    contract: Contract


def _move_user(job: Job, country: str, second: int) -> None:
    job.log.address(country, second - 1)
    job.log.beats(second + 8)
    job.batch()


def _move_seller(job: MarketJob, country: str, second: int) -> None:
    at_ms = second * market_story.S
    job.batch(at_ms, Moved("ann", country, 1, at_ms - 1))


def _names(face: Any) -> list[str]:
    return [service.full_name for service in face.services]


def _country(record: state_pb2.Record) -> str:
    return str(json.loads(record.json)["country"]) if record.HasField("json") else ""


def _sellers(records: Any) -> list[tuple[str, str]]:
    return [(r.name.key, _country(r)) for r in records if r.name.state == "seller"]


def _seller(key: str) -> state_pb2.RecordName:
    return state_pb2.RecordName(state="seller", key=key)


QUERY = Contract(
    name="query.v1",
    flags=(),
    services=_names(QueryFace),
    epoch=story.EPOCH,
    changed_later={"ann", "bob"},
    job=Job,
    begin=story.begin,
    go_on=story.go_on,
    move=_move_user,
    get=lambda key, **more: ("Query.GetUser", query_pb2.GetUserRequest(user_id=key, **more)),
    country=lambda answer: str(answer.user.resident_country_code.value),
    listing=lambda **more: ("Query.ListUsers", query_pb2.ListUsersRequest(**more)),
    other_listing=lambda **more: ("Query.ListPending", query_pb2.ListPendingRequest(**more)),
    watch=lambda **more: ("Watch.Watch", watch_pb2.WatchRequest(**more)),
    watch_key=lambda key, **more: ("Watch.WatchUser", watch_pb2.WatchUserRequest(user_id=key, **more)),
    changed=lambda answer: [(c.user_id, c.user.resident_country_code.value) for c in answer.changes],
)
STATE = Contract(
    name="state.v1",
    flags=("--service", market_story.SERVICE),
    services=_names(StateFace(market_story.SERVICE)),
    epoch=market_story.EPOCH,
    changed_later=set(),
    job=MarketJob,
    begin=market_story.begin,
    go_on=market_story.go_on,
    move=_move_seller,
    get=lambda key, **more: ("State.Get", state_pb2.GetRequest(name=_seller(key), **more)),
    country=lambda answer: _country(answer.records[0]),
    listing=lambda prefix="", **more: (
        "State.List",
        state_pb2.ListRequest(state="seller", keys=state_pb2.KeyRange(prefix=prefix), **more),
    ),
    other_listing=lambda **more: ("State.ListEntries", state_pb2.ListEntriesRequest(map="offers", key="ann", **more)),
    watch=lambda **more: ("State.Watch", state_pb2.WatchRequest(**more)),
    watch_key=lambda key, **more: ("State.Watch", state_pb2.WatchRequest(key=key, **more)),
    changed=lambda answer: _sellers(answer.changes),
)
CONTRACTS = (QUERY, STATE)
