"""What a request is answered with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from moneystate.ingest.bodies import as_json
from moneystate.ingest.refusals import Refused

Place = tuple[int, int]
"""Partition and offset of a record."""


ACCEPTED: Final = 202
MULTI_STATUS: Final = 207  # some records of the list were refused
UNAUTHORIZED: Final = 401


class Answer(NamedTuple):
    status: int
    body: bytes  # JSON


def one(place: Place) -> Answer:
    return Answer(ACCEPTED, b'{"partition":%d,"offset":%d}' % place)


def many(places: Sequence[Place]) -> Answer:
    return Answer(ACCEPTED, as_json({"records": [plain(place) for place in places]}))


def by_index(results: Sequence[Place | Refused]) -> Answer:
    """Makes the answer for `partial`: each record has a place or its own error."""
    refused = any(isinstance(result, Refused) for result in results)
    records = [result.plain() if isinstance(result, Refused) else plain(result) for result in results]
    return Answer(MULTI_STATUS if refused else ACCEPTED, as_json({"records": records}))


def plain(place: Place) -> dict[str, int]:
    return {"partition": place[0], "offset": place[1]}


def refusal(refused: Refused) -> Answer:
    return Answer(refused.status, as_json(refused.plain()))


JSON_TYPE: Final = (b"content-type", b"application/json")
REPLAYED: Final = (b"idempotent-replayed", b"true")


def headers_of(answer: Answer, retry_s: float = 0.0, replayed: bool = False) -> list[Any]:
    headers = [JSON_TYPE, (b"content-length", b"%d" % len(answer.body))]
    if retry_s:
        headers.append((b"retry-after", b"%d" % max(1, round(retry_s + 0.499))))
    if replayed:
        headers.append(REPLAYED)
    if answer.status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
