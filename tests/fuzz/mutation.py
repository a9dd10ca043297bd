"""Strategies for damaged inputs: real encodings after a few changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import strategies as st

# Bytes that mean something to a parser: lengths and ends of varints, signs, JSON, UTF-8.
TELLING: Final = [
    b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\xff" * 9 + b"\x01", b"\xfe" * 4 + b"\x0f", b"\xc3\x01",
    b"\xed\xa0\x80", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\ud800", b"-", b"0", b"9" * 30, b"1e999999999",
    b"NaN", b"Infinity", b"null", b"true", b"[" * 3_000, b'{"a":' * 3_000, b"9" * 5_000, b"\xc2\xb2", b"\xd9\xa3",
]  # fmt: skip
FLIP, CUT, INSERT, REPEAT, SWAP = range(5)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
_PLACE: Final = st.floats(0, 1)
_PIECE: Final = st.sampled_from(TELLING) | st.binary(min_size=1, max_size=6)
_CHANGE: Final = st.tuples(st.integers(FLIP, SWAP), _PLACE, _PLACE, _PIECE)


def mutate(content: bytes, changes: Sequence[tuple[int, float, float, bytes]]) -> bytes:
    """Applies changes: a kind, a place, an end or amount, and bytes."""
    data = bytearray(content)
    for kind, where, extent, piece in changes:
        pos = int(where * len(data))
        end = pos + int(extent * min(16, len(data) - pos))
        if kind == FLIP and pos < len(data):
            data[pos] ^= 1 << int(extent * 7)
        elif kind == CUT:
            del data[pos : end if extent < 0.8 else len(data)]
        elif kind == INSERT:
            data[pos:pos] = piece
        elif kind == REPEAT:
            data[pos:pos] = data[pos:end] * 3
        elif kind == SWAP:
            data[pos : pos + len(piece)] = piece
    return bytes(data)


def mutated(encodings: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Real encodings, most of them damaged; and any bytes."""
    damaged = st.builds(mutate, encodings, st.lists(_CHANGE, max_size=4))
    return damaged | encodings | st.binary(max_size=40)


@st.composite
def reshaped(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """Parsed JSON with a value replaced, removed, or added somewhere."""
    document = draw(documents)
    for _ in range(draw(st.integers(0, 2))):
        places = _places(document)
        if not places:
            return draw(JSON)
        holder, name = draw(st.sampled_from(places))
        how = draw(st.integers(0, 3))
        if how == 0:
            del holder[name]
        elif how == 1 and isinstance(holder, dict):
            holder[draw(st.text(max_size=5))] = draw(JSON)
        else:
            holder[name] = draw(JSON)
    return document


def _places(document: Any) -> list[tuple[Any, Any]]:
    items: Any = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    return [(document, name) for name, _ in items] + [place for _, value in items for place in _places(value)]


def fresh(make: Callable[[], Any]) -> st.SearchStrategy[Any]:
    """A new object for each input, so that `reshaped` may change it."""
    return st.builds(make)
