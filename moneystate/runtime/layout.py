"""The layout of a service's entry keys, to the byte (docs/state-services.md).

    kind (1 byte)  `v` value, `m` map entry, `t` timer, `u` ids seen by `unique`
    length of the name (1 byte), name of the value, map, timer, or topic (ASCII)
    length of the key (2 bytes, big-endian), key (UTF-8)
    id (UTF-8): of a map entry, of a timer of a map, or the number of a page of seen ids; empty for others

The entries of a map under one key are adjacent, in the order of their ids. The owner of an entry is the key that it
belongs to.
"""

from __future__ import annotations

from typing import Final, NamedTuple

VALUE: Final = b"v"
ENTRY: Final = b"m"
TIMER: Final = b"t"
SEEN: Final = b"u"
KINDS: Final = VALUE + ENTRY + TIMER + SEEN
MAX_ID_BYTES: Final = 65_535
NAME_AT: Final = 2  # where the name begins


class Place(NamedTuple):
    """An entry's key, decoded."""

    kind: bytes  # one of `KINDS`
    name: str
    owner: bytes  # the key that the entry belongs to
    id: bytes


def prefix_of(kind: bytes, name: str) -> bytes:
    """The first bytes of all entry keys of one value, map or timer, or of one topic's seen ids."""
    return kind + bytes([len(name)]) + name.encode("ascii")


def entry_key(prefix: bytes, owner: bytes, id: bytes = b"") -> bytes:
    return prefix + len(owner).to_bytes(2, "big") + owner + id


def place_of(key: bytes) -> Place | None:
    """Decodes an entry key. None: it is not an entry of a service."""
    kind = key[:1]
    if not kind or kind not in KINDS or len(key) < 2:
        return None
    name_end = 2 + key[1]
    if len(key) < name_end + 2:
        return None
    end = name_end + 2 + int.from_bytes(key[name_end : name_end + 2], "big")
    if len(key) < end:
        return None
    return Place(kind, key[2:name_end].decode("ascii", "replace"), key[name_end + 2 : end], key[end:])


def owner_of(key: bytes) -> bytes | None:
    """The owner of an entry. None: it is not an entry of a service."""
    place = place_of(key)
    return None if place is None else place.owner


def timer_value(prefix: bytes, id: bytes) -> bytes:
    """The value of a timer in the buffer: the key of its entry, without the owner."""
    return prefix + id


def parts_of_timer(value: bytes) -> tuple[bytes, bytes]:
    """The prefix and id of the entry that a timer in the buffer is for."""
    name_end = 2 + value[1]
    return value[:name_end], value[name_end:]
