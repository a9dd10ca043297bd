"""The layout of a service's entry keys, to the byte (docs/state-services.md).

    kind (1 byte)  `v` value, `m` map entry, `t` timer, `u` id seen by `unique`
    length of the name (1 byte), name of the value, map, timer, or topic (ASCII)
    length of the key (2 bytes, big-endian), key (UTF-8)
    id (UTF-8): of a map entry, of a timer for each id of a map, of what was seen; else empty

Entries of one key and map stand together and in the order of their ids. Whose an entry is stands in its key.
"""

from __future__ import annotations

from typing import Final, NamedTuple

VALUE: Final = b"v"
ENTRY: Final = b"m"
TIMER: Final = b"t"
SEEN: Final = b"u"
KINDS: Final = VALUE + ENTRY + TIMER + SEEN
MAX_ID_BYTES: Final = 65_535


class Place(NamedTuple):
    """An entry's key, decoded."""

    kind: bytes  # one of `KINDS`
    name: str
    owner: bytes  # the key that the entry belongs to
    id: bytes


def prefix_of(kind: bytes, name: str) -> bytes:
    """What the keys of one value, map, timer or topic begin with."""
    return kind + bytes([len(name)]) + name.encode("ascii")


def entry_key(prefix: bytes, owner: bytes, id: bytes = b"") -> bytes:
    return prefix + len(owner).to_bytes(2, "big") + owner + id


def place_of(key: bytes) -> Place | None:
    """None for a key that no service of this program has."""
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
    """Whose an entry is; None for one that is none of a service's."""
    place = place_of(key)
    return None if place is None else place.owner


def timer_value(prefix: bytes, id: bytes) -> bytes:
    """What an item of the buffer says of the entry that it is for: the entry's key without its owner."""
    return prefix + id


def parts_of_timer(value: bytes) -> tuple[bytes, bytes]:
    """The prefix and the id of the entry that an item of the buffer is for."""
    name_end = 2 + value[1]
    return value[:name_end], value[name_end:]
