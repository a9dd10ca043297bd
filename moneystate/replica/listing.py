"""Pages of listings, and how much one call examines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from moneystate.replica.model import Malformed, Page

EXAMINED: Final = 2_000  # rows of one page: a page with few matches ends early, with a mark to continue from
ENTRIES_EXAMINED: Final = 500  # the same for a listing of entries, each of up to four rows: about 10 ms
COMPARED: Final = 500  # entries that one call compares at two versions: about 10 ms
READ_AT_ONCE: Final = 200  # entries that a listing examines before it checks again that the version is still kept

Row = TypeVar("Row")
Listed = TypeVar("Listed")


def page_of(
    listed: Iterable[tuple[bytes, Row]], read: Callable[[Row], Listed | None], limit: int, examined: int
) -> Page[Listed]:
    """A page with the items of the first rows: at most `limit` items, from at most `examined` rows. `listed`: each row
    with the mark that leads to it; `read` returns None for a row that is not listed."""
    items: list[Listed] = []
    for done, (mark, row) in enumerate(listed):
        if len(items) == limit or done == examined:
            return Page(tuple(items), mark)
        item = read(row)
        if item is not None:
            items.append(item)
    return Page(tuple(items), None)


def mark_of(after: bytes | None, prefix: bytes) -> bytes:
    if after is None:
        return prefix
    if not after.startswith(prefix):
        raise Malformed("after: expected the mark of this listing's previous page")
    return after
