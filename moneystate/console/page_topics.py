"""Topics with their records, dead letters beside what was rejected, and sending them again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from moneystate.console.asking import parse_time
from moneystate.console.decoding import ReadsRegistered, content_of, hex_dump, share, text_of
from moneystate.console.jobs import LETTERS
from moneystate.console.servers import Asked
from moneystate.console.sessions import NotAllowed, Viewer
from moneystate.console.site import Missing, Site
from moneystate.console.topics import MOST, SCANNED, Wanted
from moneystate.engine.deadletter import Letter
from moneystate.engine.items import Header
from moneystate.kafka.dead_letter_log import Filter, StoredLetter
from moneystate.log import get_log
from moneystate.records.codec import Codec
from moneystate.serving.callers import ADMIN, READ_PERSONAL

LISTED: Final = 200  # dead letters of a page
MOST_DIGITS: Final = 18  # of an offset
MOST_HEADERS: Final = 50
_log = get_log(__name__)


async def topics(site: Site, request: Request, viewer: Viewer) -> Response:
    viewer.needs(READ_PERSONAL)
    there = await asyncio.to_thread(site.live.source.topics)
    return site.render(request, viewer, "topics.html", topics=there, letters=LETTERS)


async def topic(site: Site, request: Request, viewer: Viewer) -> Response:
    """Records have all their fields, so the scope for personal ones is needed."""
    viewer.needs(READ_PERSONAL)
    name = request.path_params["topic"]
    wanted = _wanted(request.query_params)
    page = await asyncio.to_thread(site.topics.page, name, wanted)
    codecs = await site.known_codecs()
    most = share(len(page.records))
    shown = await asyncio.to_thread(lambda: [_shown(one, codecs, site.registered, most) for one in page.records])
    _log.info(f"topic {name} was read", subject=viewer.subject, topic=name, records=len(page.records))
    return site.render(
        request, viewer, "topic.html", name=name, page=page, records=shown,
        given=dict(request.query_params), wanted=wanted,
    )  # fmt: skip


async def letters(site: Site, request: Request, viewer: Viewer) -> Response:
    viewer.needs(READ_PERSONAL)
    service = request.path_params["service"]
    reason = request.query_params.get("reason", "")
    newest = await asyncio.to_thread(_newest, site, service, reason)
    _log.info(f"dead letters of {service} were read", subject=viewer.subject, letters=len(newest))
    return site.render(
        request, viewer, "letters.html", service=service, letters=newest, reason=reason, most=LISTED,
        scanned=SCANNED,
    )  # fmt: skip


async def letter(site: Site, request: Request, viewer: Viewer) -> Response:
    """A dead letter beside its original bytes."""
    viewer.needs(READ_PERSONAL)
    one = await _letter(site, request)
    service = request.path_params["service"]
    codecs = await site.known_codecs()
    value = one.letter.value
    content = await asyncio.to_thread(content_of, value, codecs, site.registered)
    _log.info(f"a dead letter of {service} was read", subject=viewer.subject, letter=one.place)
    return site.render(
        request, viewer, "letter.html", service=service, one=one, about=one.about,
        content=content, bytes=hex_dump((value or b"")[:4_096]), key=text_of(one.letter.key),
        text=_editable(value), headers=_headers(one.headers),
        sent=request.query_params.get("sent", ""), may_send=site.allow_writes and ADMIN in viewer.scopes,
    )  # fmt: skip


async def send_again(site: Site, request: Request, viewer: Viewer) -> Response:
    """Writes the record to its input topic, with the value of the form."""
    if not site.allow_writes:
        raise NotAllowed("expected --allow-writes: without it, this console writes nothing.")
    viewer.needs(ADMIN)
    form = await site.sessions.form(request, viewer)
    one = await _letter(site, request)
    service = request.path_params["service"]
    log = site.live.source.dead_letters(service)
    sends, gone = await asyncio.to_thread(log.planned, [one])
    if gone:
        raise Missing(f"The record of the letter {one.place} is no longer there.")
    text, before = with_line_feeds(form.get("value", "")), _editable(one.letter.value)
    is_changed = before is not None and text != with_line_feeds(before)
    sends = [send._replace(value=text.encode()) if is_changed else send for send in sends]
    await asyncio.to_thread(log.send, sends)
    _log.info(
        f"resent dead letter {one.place} of {service}", subject=viewer.subject, service=service, letter=one.place,
        topic=sends[0].topic, corrected=is_changed,
    )  # fmt: skip
    return RedirectResponse(f"{request.url.path}?sent={'corrected' if is_changed else 'unchanged'}", 303)


async def _letter(site: Site, request: Request) -> StoredLetter:
    """Raises Missing."""
    service, place = request.path_params["service"], request.path_params["place"].replace("-", "/")
    parts = place.split("/")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) <= MOST_DIGITS for part in parts):
        raise Missing(f"{place}: expected PARTITION-OFFSET of a dead letter.")
    log = site.live.source.dead_letters(service)
    there = await asyncio.to_thread(lambda: list(log.read(Filter(places=frozenset({place})))))
    if not there:
        raise Missing(f"There is no dead letter {place} of {service}.")
    return there[0]


def _newest(site: Site, service: str, reason: str) -> Sequence[StoredLetter]:
    chosen = Filter(reasons=frozenset({reason} if reason else ()))

    def pick(letter: Letter) -> Letter | None:
        letter.value = None  # the list does not show it
        return letter if chosen.takes(StoredLetter(letter)) else None

    return [StoredLetter(one) for one in site.topics.newest(service + LETTERS, pick, LISTED)]


def _editable(value: bytes | None) -> str | None:
    """The text of a value that a person can correct; None: it is no text."""
    if value is None or len(value) > 60_000 or b"\0" in value:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _wanted(given: QueryParams) -> Wanted:
    """Raises Asked."""
    since = given.get("since", "")
    return Wanted(
        partition=_number(given, "partition"),
        offset=_number(given, "offset"),
        since_ms=parse_time(since) if since else None,
        key=given["key"].encode() if given.get("key") else None,
        limit=min(MOST, _number(given, "limit") or 20),
    )


def _number(given: QueryParams, name: str) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise Asked("INVALID_ARGUMENT", f"{name}: expected a whole number, found {text}.")
    return int(text)


def with_line_feeds(text: str) -> str:
    """The text with the same character at the end of each line: browsers send other ones than they were given."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _shown(one: Letter, codecs: dict[bytes, Codec], registered: ReadsRegistered | None, most: int) -> dict[str, Any]:
    return {
        "record": one, "key": text_of(one.key), "content": content_of(one.value, codecs, registered, most),
        "headers": _headers(one.headers),
    }  # fmt: skip


def _headers(headers: Sequence[Header]) -> list[tuple[str, str]]:
    return [(text_of(name.encode(errors="replace")), text_of(value)) for name, value in headers[:MOST_HEADERS]]
