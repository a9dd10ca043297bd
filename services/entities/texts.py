"""A `Merge` as a text of any length, in entries that Kafka takes.

The text is `[created, deleted, stamps, marks]`, a line feed and the document, each as JSON. It stands in `Stored`, and
what is too long for that in the entries `000000`, `000001` and so on of the map `pieces`.
"""

from __future__ import annotations

from collections.abc import Iterable
from json import JSONDecoder
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any, Final

import moneystate as ms
from moneystate.records.json_text import canonical_text, parse
from moneystate.records.json_value import json_as_is
from services.entities.merge import Merge
from services.entities.records import Piece, Stored

PIECE: Final = 200_000  # characters, of at most 4 bytes each: a record is below 1 MB
_trace: Final = JSONDecoder().raw_decode
# The C part of the standard library, without what it wraps around each call.
_pieces: Final[Any] = c_make_encoder(None, None, encode_basestring, None, ":", ",", False, False, True)


def merge_of(text: str) -> Merge:
    if not text:
        return Merge()
    (created, deleted, stamps, marks), end = _trace(text)
    return Merge(parse(text[end + 1 :]), marks, stamps, created, deleted)


def text_of(merge: Merge) -> str:
    trace = _pieces([merge.created, merge.deleted, merge.stamps, merge.marks], 0)
    return f"{''.join(trace)}\n{canonical_text(merge.document)}"


def visible_body(stored: Stored, text: str) -> ms.Json | None:
    """None where the entity is not ACTIVE."""
    return json_as_is(text.partition("\n")[2]) if stored.status == "ACTIVE" else None


def whole_text(stored: Stored, pieces: Iterable[tuple[str, Piece]]) -> str:
    """`pieces` are not read where there are none."""
    return "".join([stored.text, *[piece.text for _, piece in pieces]]) if stored.pieces else stored.text


def keep_text(text: str, stored: Stored, pieces: ms.Entries[Piece]) -> None:
    stored.text, *rest = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    for number, piece in enumerate(rest):
        pieces.put(f"{number:06d}", Piece(piece))
    for number in range(len(rest), stored.pieces):
        pieces.delete(f"{number:06d}")
    stored.pieces = len(rest)
