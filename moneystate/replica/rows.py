"""The layout of the replica's rows, to the byte. There is one RocksDB with one column family; the first byte of a
key says what the row is.

A revision is the replica's own number of a version, 8 bytes big-endian, in the order of versions. Numbers that may be
negative are stored as value + 2^63, so that they sort. A text that is not the last part of a key is escaped: 00 becomes
00 FF, and 00 01 ends it, so that texts sort as their bytes do. An entry is `escaped user | kind | rest`, where kind and
rest are those of the changelog's entry key (docs/state.md), so a user's entries are adjacent.

    key                                             value
    L | entry                                       revision | value            the entry as it is now
    H | entry, escaped after the user | 2^64-1 - revision
                                                    until | length of dropped (4) | dropped | value
                                                    the entry as it was from `revision` to before `until`; dropped: the
                                                    index keys that ended with it, each with its length (2) before it
    C | revision | entry                            revision of what it replaced, 0: none. A change, for Watch, Diff and
                                                    the sweep
    I | index key                                   revision in which it was put. Ordered ones (`x`) are there at the
                                                    newest revision, others are hints, checked by who reads them:
        u user
        x ...                                       of the service
        others                                      of the service
    O | order time | escaped user | rest            revision. An entry that holds an output back at the newest revision
    P | class (1) | until | order time | escaped user | rest
                                                    revision. One that has done so from `revision` to before `until`;
                                                    class: bits of until - revision
    X | class (1) | until >> class | index key | until
                                                    revision. An ordered index key that was there from `revision` to
                                                    before `until`; class: bits of until - revision
    R | revision                                    JSON: [epoch, batch, watermark, written (ms), readable (0, 1)]
    V | escaped epoch | batch                       revision; batch -1: what a checkpoint begins with
    W | number of the epoch (4) | watermark | revision   empty. Readable versions
    E | escaped id | user                           timestamp, partition (4), offset, header. A record of the output
                                                    that is traced, by its id
    T | timestamp | escaped id | user               empty. Lineage by age
    U | escaped user | timestamp | id               empty. Lineage by user
    M | name                                        JSON: what the follower keeps of itself
    Z | changelog partition (4) | entry             offset | value. During the first load only: what was read last; no
                                                    value: removed
"""

from __future__ import annotations

import struct
from typing import Final

LATEST: Final = b"L"
PAST: Final = b"H"
CHANGE: Final = b"C"
INDEX: Final = b"I"
PENDING: Final = b"O"
PENDING_HISTORY: Final = b"P"
INDEX_HISTORY: Final = b"X"
REVISION: Final = b"R"
VERSION: Final = b"V"
WATERMARK: Final = b"W"
LINEAGE: Final = b"E"
LINEAGE_AGE: Final = b"T"
LINEAGE_USER: Final = b"U"
META: Final = b"M"
LOADED: Final = b"Z"

BY_USER: Final = b"u"  # followed by the user
ORDERED: Final = b"x"  # first byte of index keys that are kept by version; each belongs to one entry

LONG_BYTES: Final = 8
MAX_LONG: Final = (1 << 64) - 1
SIGN: Final = 1 << 63
END: Final = b"\x00\x01"

_two = struct.Struct(">QI")


def long(n: int) -> bytes:
    return n.to_bytes(LONG_BYTES, "big")


def read_long(buf: bytes, pos: int = 0) -> int:
    return int.from_bytes(buf[pos : pos + LONG_BYTES], "big")


def signed(n: int) -> bytes:
    return long(n + SIGN)


def read_signed(buf: bytes, pos: int = 0) -> int:
    return read_long(buf, pos) - SIGN


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


def entry_of(user: bytes, kind: bytes, rest: bytes) -> bytes:
    return escape(user) + kind + rest


def split_entry(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """User, kind, rest."""
    user, kind_pos = unescape(entry, 0)
    return user, entry[kind_pos : kind_pos + 1], entry[kind_pos + 1 :]


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


def past_value(until: int, dropped: list[bytes], value: bytes) -> bytes:
    listed = b"".join(len(key).to_bytes(2, "big") + key for key in dropped)
    return _two.pack(until, len(listed)) + listed + value


def read_past(row: bytes) -> tuple[int, bytes]:
    """Reads until and value."""
    until, listed = _two.unpack_from(row)
    return until, row[_two.size + listed :]


def read_dropped(row: bytes) -> list[bytes]:
    _, listed = _two.unpack_from(row)
    dropped, pos, end = [], _two.size, _two.size + listed
    while pos < end:
        n = int.from_bytes(row[pos : pos + 2], "big")
        dropped.append(row[pos + 2 : pos + 2 + n])
        pos += 2 + n
    return dropped


def waits_at(order_time_ms: int, user: bytes, position: bytes) -> bytes:
    """The part of O and P keys that identifies and sorts the money."""
    return signed(order_time_ms) + escape(user) + position


def split_waits_at(tail: bytes) -> tuple[int, bytes, bytes]:
    user, user_end = unescape(tail, LONG_BYTES)
    return read_signed(tail), user, tail[user_end:]


def pending_history_key(start: int, until: int, tail: bytes) -> bytes:
    return PENDING_HISTORY + bytes([(until - start).bit_length()]) + long(until) + tail


def is_ordered(index_key: bytes) -> bool:
    return index_key[:1] == ORDERED


def index_history_key(start: int, until: int, index_key: bytes) -> bytes:
    bits = (until - start).bit_length()
    return index_history_start(bits, until >> bits) + index_key + long(until)


def index_history_start(bits: int, stretch: int) -> bytes:
    """The start of a class's rows that end within an interval of 2^bits revisions. They are in the order of the
    index."""
    return INDEX_HISTORY + bytes([bits]) + long(stretch)


def lineage_key(money_id: bytes, user: bytes) -> bytes:
    return LINEAGE + escape(money_id) + user
