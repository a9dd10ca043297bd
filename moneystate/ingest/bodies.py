"""Makes JSON documents of a request's body."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from moneystate.engine.avro import Malformed
from moneystate.ingest.refusals import Refused, too_large
from moneystate.records.json_text import MAX_RECORD_LEVELS, decoded, parse

GZIP: Final = 31  # zlib's way to say that there is a gzip header
BLANK: Final = b" \t\r"


class Kind(Enum):
    json = "json"
    lines = "lines"


KINDS: Final = {
    "application/json": Kind.json,
    "application/x-ndjson": Kind.lines,
    "application/ndjson": Kind.lines,
    "application/jsonl": Kind.lines,
    "application/x-jsonlines": Kind.lines,
}


class Documents(NamedTuple):
    """The records of a body, parsed. A line that cannot be parsed is its error."""

    items: list[Any]
    is_many: bool  # an array, or lines: the answer has a list


@lru_cache(maxsize=100)
def kind_of(content_type: str) -> Kind:
    """Raises Refused."""
    name, _, parameters = content_type.partition(";")
    kind = KINDS.get(name.strip().lower())
    if kind is None or not _is_utf_8(parameters):
        raise Refused(
            "UNSUPPORTED_CONTENT",
            "expected the content type application/json or application/x-ndjson, in UTF-8.",
        )
    return kind


def _is_utf_8(parameters: str) -> bool:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            return False
    return True


def decompressed(body: bytes, encoding: str, most: int) -> bytes:
    """The body, of at most `most` bytes. Raises Refused."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in ("gzip", "x-gzip"):
        raise Refused("UNSUPPORTED_CONTENT", "expected the content encoding gzip, or none.")
    parts: list[bytes] = []
    left = most
    while body:  # a gzip file may have several members
        member = zlib.decompressobj(GZIP)
        try:
            part = member.decompress(body, left + 1)
        except zlib.error:
            raise Refused("BAD_BODY", "expected gzip, as the content encoding says, found something else.") from None
        if len(part) > left:
            raise too_large(most)
        if not member.eof:
            raise Refused("BAD_BODY", "expected the whole of a gzip body, found a part of it.")
        parts.append(part)
        left -= len(part)
        body = member.unused_data
    return b"".join(parts)


def documents(kind: Kind, body: bytes, most: int) -> Documents:
    """Raises Refused for a body that is not JSON, and for one without records or with more than `most`."""
    if kind is Kind.json:
        parsed = _parsed(body)
        if isinstance(parsed, Malformed):
            raise Refused("BAD_BODY", f"expected JSON, but {parsed}.")
        parts = Documents(parsed, True) if type(parsed) is list else Documents([parsed], False)
    else:
        parts = Documents(list(_lines(body, most)), True)
    if not parts.items:
        raise Refused("BAD_BODY", "expected at least one record, found none.")
    if len(parts.items) > most:
        raise Refused("TOO_MANY_RECORDS", f"expected at most {most:,} records in one request.")
    return parts


def _lines(body: bytes, most: int) -> Iterator[Any]:
    """Yields the lines, at most one more than `most`."""
    count = 0
    for line in body.split(b"\n"):
        if line.strip(BLANK):
            yield _parsed(line)
            count += 1
            if count > most:
                return


def _parsed(text: bytes) -> Any:
    """The document, or the error."""
    try:
        return parse(decoded(text), MAX_RECORD_LEVELS + 1)  # an array is a level of its own
    except Malformed as e:
        return e


def as_json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
