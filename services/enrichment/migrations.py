"""Migrates state entries between released versions, up and down, with chains of pure functions of bytes.

A reader passes each entry through `to_current`. Each function has golden input and output (`tests/golden/`), which
never change. A downgrade function exists only if it loses nothing that the earlier version has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from moneystate.engine.avro import (
    HEADER_BYTES,
    Malformed,
    long_bytes,
    read_block,
    read_bytes,
    read_long,
    skip_bytes,
    string_bytes,
    write_block,
)
from moneystate.engine.clock import clock_1_to_2, clock_2_to_1
from moneystate.engine.fingerprints import BUFFER_CHUNK, KEY_GROUP_CLOCK, KEY_GROUP_CLOCK_V1
from moneystate.engine.processor import Change
from services.enrichment import fingerprints as fp
from services.enrichment.money_ids import pack_id, read_id
from services.enrichment.source import read_source

Migration = Callable[[bytes], bytes]


def to_current(entry: bytes) -> bytes:
    """The entry in the version that this program writes. Raises Malformed for an unknown schema."""
    header = entry[:HEADER_BYTES]
    while header in UP:
        entry = UP[header](entry)
        header = entry[:HEADER_BYTES]
    if header not in CURRENT:
        raise Malformed("a state entry has a schema that this program does not know: a newer program wrote it")
    return entry


def down(entry: bytes) -> bytes:
    """The entry one version earlier. It stays the same if its schema did not change."""
    migration = DOWN.get(entry[:HEADER_BYTES])
    return entry if migration is None else migration(entry)


class NotDowngradable(Exception):
    """An earlier state version cannot represent an entry. `args[0]` says which."""


def at_version(entry: bytes, version: int) -> bytes:
    """The entry in state version `version`. Raises NotDowngradable, and Malformed for an unknown schema."""
    if version == max(WRITTEN):
        return to_current(entry)
    while entry[:HEADER_BYTES] not in WRITTEN[version]:
        header = entry[:HEADER_BYTES]
        if header in LEFT_ALONE:
            return entry
        if header not in DOWN:
            raise NotDowngradable(f"no function leads from schema {header[2:].hex()} to state version {version}")
        entry = DOWN[header](entry)
    return entry


def rewrite(entries: Iterator[tuple[bytes, bytes]], version: int) -> list[Change]:
    """Entries not yet encoded in state version `version`, re-encoded in it."""
    changes: list[Change] = []
    for key, entry in entries:
        rewritten = at_version(entry, version)
        if rewritten != entry:
            changes.append((key, rewritten))
    return changes


# Version 1 to 2: adds the sources of values, and stores money ids as 16 bytes.


def user_state_1_to_2(entry: bytes) -> bytes:
    _, birth_end = _skip_optional(entry, HEADER_BYTES)
    _, country_end = _skip_optional(entry, birth_end)
    out = bytearray(fp.USER_STATE)
    out += entry[HEADER_BYTES:birth_end] + b"\x00"
    out += entry[birth_end:country_end] + b"\x00"
    pos = _skip_longs(entry, country_end, 3)
    out += entry[country_end:pos]
    branch, page_start = read_long(entry, pos)
    out += entry[pos:page_start]
    if branch == 1:
        _page_1_to_2(out, entry, page_start)
    return bytes(out)


def user_page_1_to_2(entry: bytes) -> bytes:
    out = bytearray(fp.USER_PAGE)
    _page_1_to_2(out, entry, HEADER_BYTES)
    return bytes(out)


def waiting_money_1_to_2(entry: bytes) -> bytes:
    pos = _end_of_waiting_head(entry)
    return fp.WAITING_MONEY + entry[HEADER_BYTES:pos] + b"\x00\x00\x00" + entry[pos:]


def _page_1_to_2(out: bytearray, buf: bytes, pos: int) -> None:
    pos = _convert_array(out, buf, pos, _type_1_to_2)
    pos = _convert_array(out, buf, pos, _id_1_to_2)
    pos = _convert_array(out, buf, pos, _session_1_to_2)
    pos = _copy_arrays(out, buf, pos, 2)  # waiting, lookups
    _convert_array(out, buf, pos, _reply_1_to_2)


def _type_1_to_2(out: bytearray, block: bytes, pos: int) -> int:
    _, end = skip_bytes(block, pos)
    out += block[pos:end] + b"\x00"
    return end


def _id_1_to_2(out: bytearray, block: bytes, pos: int) -> int:
    money_id, end = read_bytes(block, pos)
    seen_at, end = read_long(block, end)
    out += pack_id(money_id) + long_bytes(seen_at) + b"\x00"
    return end


def _session_1_to_2(out: bytearray, block: bytes, pos: int) -> int:
    end = _skip_session(block, pos)
    out += block[pos:end] + b"\x00"
    return end


def _reply_1_to_2(out: bytearray, block: bytes, pos: int) -> int:
    end = _skip_reply(block, pos)
    out += block[pos:end] + b"\x00"
    return end


# Version 2 to 1: drops the sources. Only Explain needs them.


def user_state_2_to_1(entry: bytes) -> bytes:
    _, birth_end = _skip_optional(entry, HEADER_BYTES)
    _, country_start = read_source(entry, birth_end)
    _, country_end = _skip_optional(entry, country_start)
    _, rest = read_source(entry, country_end)
    out = bytearray(fp.USER_STATE_V1)
    out += entry[HEADER_BYTES:birth_end] + entry[country_start:country_end]
    pos = _skip_longs(entry, rest, 3)
    branch, page_start = read_long(entry, pos)
    out += entry[rest:page_start]
    if branch == 1:
        _page_2_to_1(out, entry, page_start)
    return bytes(out)


def user_page_2_to_1(entry: bytes) -> bytes:
    out = bytearray(fp.USER_PAGE_V1)
    _page_2_to_1(out, entry, HEADER_BYTES)
    return bytes(out)


def waiting_money_2_to_1(entry: bytes) -> bytes:
    head = _end_of_waiting_head(entry)
    pos = head
    for _ in range(3):
        _, pos = read_source(entry, pos)
    return fp.WAITING_MONEY_V1 + entry[HEADER_BYTES:head] + entry[pos:]


def _page_2_to_1(out: bytearray, buf: bytes, pos: int) -> None:
    pos = _convert_array(out, buf, pos, _type_2_to_1)
    pos = _convert_array(out, buf, pos, _id_2_to_1)
    pos = _convert_array(out, buf, pos, _session_2_to_1)
    pos = _copy_arrays(out, buf, pos, 2)
    _convert_array(out, buf, pos, _reply_2_to_1)


def _type_2_to_1(out: bytearray, block: bytes, pos: int) -> int:
    _, end = skip_bytes(block, pos)
    return _without_source(out, block, pos, end)


def _id_2_to_1(out: bytearray, block: bytes, pos: int) -> int:
    money_id, end = read_id(block, pos)
    seen_at, end = read_long(block, end)
    out += string_bytes(money_id) + long_bytes(seen_at)
    _, end = read_source(block, end)
    return end


def _session_2_to_1(out: bytearray, block: bytes, pos: int) -> int:
    return _without_source(out, block, pos, _skip_session(block, pos))


def _reply_2_to_1(out: bytearray, block: bytes, pos: int) -> int:
    return _without_source(out, block, pos, _skip_reply(block, pos))


def _without_source(out: bytearray, block: bytes, pos: int, end: int) -> int:
    out += block[pos:end]
    _, end = read_source(block, end)
    return end


def _convert_array(out: bytearray, buf: bytes, pos: int, convert: Callable[[bytearray, bytes, int], int]) -> int:
    """Writes the array at `pos`, with each item converted by `convert`. Returns the position after the array."""
    count, block, pos = read_block(buf, pos)
    items = bytearray()
    item_pos = 0
    for _ in range(count):
        item_pos = convert(items, block, item_pos)
    write_block(out, count, bytes(items))
    return pos


def _copy_arrays(out: bytearray, buf: bytes, pos: int, arrays: int) -> int:
    start = pos
    for _ in range(arrays):
        _, _, pos = read_block(buf, pos)
    out += buf[start:pos]
    return pos


def _end_of_waiting_head(entry: bytes) -> int:
    """The end of the fields with which both versions of WaitingMoney begin."""
    _, pos = read_long(entry, HEADER_BYTES)
    for _ in range(2):  # requestedAt, reason
        branch, pos = read_long(entry, pos)
        if branch == 1:
            _, pos = read_long(entry, pos)
    return pos + 1


def _skip_optional(buf: bytes, pos: int) -> tuple[int, int]:
    branch, start = read_long(buf, pos)
    return (start, start) if branch == 0 else skip_bytes(buf, start)


def _skip_longs(buf: bytes, pos: int, n: int) -> int:
    for _ in range(n):
        _, pos = read_long(buf, pos)
    return pos


def _skip_session(block: bytes, pos: int) -> int:
    _, pos = skip_bytes(block, pos)
    _, pos = skip_bytes(block, pos)
    return _skip_longs(block, pos, 1)


def _skip_reply(block: bytes, pos: int) -> int:
    _, pos = skip_bytes(block, pos)
    pos = _skip_longs(block, pos, 2)
    _, pos = _skip_optional(block, pos)
    return pos


UP: Final[dict[bytes, Migration]] = {
    KEY_GROUP_CLOCK_V1: clock_1_to_2,
    fp.USER_STATE_V1: user_state_1_to_2,
    fp.USER_PAGE_V1: user_page_1_to_2,
    fp.WAITING_MONEY_V1: waiting_money_1_to_2,
}
DOWN: Final[dict[bytes, Migration]] = {
    KEY_GROUP_CLOCK: clock_2_to_1,
    fp.USER_STATE: user_state_2_to_1,
    fp.USER_PAGE: user_page_2_to_1,
    fp.WAITING_MONEY: waiting_money_2_to_1,
}
CURRENT: Final = [
    BUFFER_CHUNK,
    KEY_GROUP_CLOCK,
    fp.USER_STATE,
    fp.USER_PAGE,
    fp.WAITING_MONEY,
    fp.FORGOTTEN_USER,
]
# The schemas of each state version.
WRITTEN: Final[dict[int, list[bytes]]] = {
    1: [BUFFER_CHUNK, KEY_GROUP_CLOCK_V1, fp.USER_STATE_V1, fp.USER_PAGE_V1, fp.WAITING_MONEY_V1],
    2: CURRENT,
}
# Earlier programs never read entries under the keys of these schemas, so a downgrade need not convert them.
LEFT_ALONE: Final = [fp.FORGOTTEN_USER]
# The first state version whose programs know an event. An earlier program fails if its buffer has such an event.
EVENTS_SINCE: Final[dict[bytes, int]] = {fp.FORGET_USER_REQUESTED: 2}
