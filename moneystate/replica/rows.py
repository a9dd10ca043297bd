"""The layout of the replica's rows, to the byte. There is one RocksDB with one column family; the first byte of a
key says what the row is.

A revision is the replica's own number of a version, 8 bytes big-endian, in the order of versions. Numbers that may be
negative are stored as value + 2^63, so that they sort. A text that is not the last part of a key is escaped: 00 becomes
00 FF, and 00 01 ends it, so that texts sort as their bytes do. The owner of an entry is the key that it belongs to. An
entry is `escaped owner | kind | rest`, where kind and rest are those of the changelog's entry key (docs/state.md), so
the entries of an owner are adjacent.

    key                                             value
    L | entry                                       revision | value            the entry as it is now
    H | entry, escaped after the owner | 2^64-1 - revision
                                                    until | value
                                                    the entry as it was from `revision` to before `until`
    C | revision | entry                            revision of what it replaced, 0: none. A change, for Watch, Diff and
                                                    the sweep
    I | index key                                   revision in which it was put. It is there at the newest revision
    X | class (1) | until >> class | index key | until
                                                    revision. An index key that was there from `revision` to before
                                                    `until`; class: bits of until - revision
    R | revision                                    JSON: [epoch, batch, watermark, written (ms), readable (0, 1)]
    V | escaped epoch | batch                       revision; batch -1: what a checkpoint begins with
    W | number of the epoch (4) | watermark | revision   empty. Readable versions
    M | name                                        JSON: what the follower keeps of itself
    Z | changelog partition (4) | entry             offset | value. During the first load only: what was read last; no
                                                    value: removed
"""

from __future__ import annotations

from typing import Final

LATEST: Final = b"L"
PAST: Final = b"H"
CHANGE: Final = b"C"
INDEX: Final = b"I"
INDEX_HISTORY: Final = b"X"
REVISION: Final = b"R"
VERSION: Final = b"V"
WATERMARK: Final = b"W"
META: Final = b"M"
LOADED: Final = b"Z"

LONG_BYTES: Final = 8
MAX_LONG: Final = (1 << 64) - 1
SIGN: Final = 1 << 63
END: Final = b"\x00\x01"


def long(n: int) -> bytes:
    return n.to_bytes(LONG_BYTES, "big")


def read_long(buf: bytes, pos: int = 0) -> int:
    return int.from_bytes(buf[pos : pos + LONG_BYTES], "big")


def signed(n: int) -> bytes:
    return long(n + SIGN)


def escape(text: bytes) -> bytes:
    if b"\x00" in text:
        text = text.replace(b"\x00", b"\x00\xff")
    return text + END


def escape_start(text: bytes) -> bytes:
    """The common prefix of the escaped texts that begin with this text."""
    return escape(text)[: -len(END)]


def unescape(buf: bytes, pos: int) -> tuple[bytes, int]:
    """The text that begins at `pos`, and the position after its end."""
    text_end = buf.index(END, pos)
    return buf[pos:text_end].replace(b"\x00\xff", b"\x00"), text_end + len(END)


def after(prefix: bytes) -> bytes:
    """The first key after all keys that begin with `prefix`."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1])


def text(raw: bytes) -> str:
    """A name in readable form."""
    return raw.decode("utf-8", "replace")


def entry_of(owner: bytes, kind: bytes, rest: bytes) -> bytes:
    return escape(owner) + kind + rest


def split_entry(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """User, kind, rest."""
    owner, kind_pos = unescape(entry, 0)
    return owner, entry[kind_pos : kind_pos + 1], entry[kind_pos + 1 :]


def past_key(entry: bytes, revision: int) -> bytes:
    return past_rows(entry) + long(MAX_LONG - revision)


def past_rows(entry: bytes) -> bytes:
    """Returns what the keys of an entry's past rows begin with. They sort as the entries do: one may be the beginning
    of another."""
    return past_prefix(entry) + END


def past_prefix(prefix: bytes) -> bytes:
    """Returns what the keys of past rows begin with whose entries begin with `prefix`."""
    user_end = prefix.find(END)
    if user_end < 0:
        return PAST + prefix
    rest_pos = user_end + len(END)
    return PAST + prefix[:rest_pos] + prefix[rest_pos:].replace(b"\x00", b"\x00\xff")


def past_entry(key: bytes) -> bytes:
    """The entry of a past row, by its key."""
    entry = key[1 : -LONG_BYTES - len(END)]
    rest_pos = entry.index(END) + len(END)
    return entry[:rest_pos] + entry[rest_pos:].replace(b"\x00\xff", b"\x00")


def past_value(until: int, value: bytes) -> bytes:
    return long(until) + value


def read_past(row: bytes) -> tuple[int, bytes]:
    """Reads until and value."""
    return read_long(row), row[LONG_BYTES:]


def index_history_key(start: int, until: int, index_key: bytes) -> bytes:
    bits = (until - start).bit_length()
    return index_history_start(bits, until >> bits) + index_key + long(until)


def index_history_start(bits: int, stretch: int) -> bytes:
    """The start of a class's rows that end within an interval of 2^bits revisions. They are in the order of the
    index."""
    return INDEX_HISTORY + bytes([bits]) + long(stretch)
