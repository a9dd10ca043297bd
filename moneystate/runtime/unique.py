"""Whether an event repeats an id that `unique` has seen (`moneystate.runtime.seen_page`)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from moneystate.engine.effects import Effects
from moneystate.engine.items import END_OF_TIME, TIME, Item
from moneystate.runtime.cells import NEVER, Cell
from moneystate.runtime.seen_page import EMPTY, NO_IDS, SeenIds, SeenKind
from moneystate.runtime.step_changes import StepChanges
from moneystate.runtime.work import Work
from moneystate.runtime.working_set import WorkingSet

PAGE_IDS: Final = 64
FULL: Final = 2 * PAGE_IDS  # a page with more ids makes its key get four times as many pages
MAX_DEPTH: Final = 16


class UniqueIds:
    """All decisions follow the total order, so the pages do not depend on the batches either."""

    def __init__(self, changes: StepChanges) -> None:
        self.changes = changes
        self.cells: WorkingSet  # of the batch

    def announce(self, works: Iterable[Work]) -> None:
        """Loads the pages in which the ids of events are, in one request. The heads are loaded."""
        is_paged = False
        for work in works:
            head = work.cell
            if head is None or not work.seen_id:
                continue
            self.cells.decode(head)
            seen: SeenIds | None = head.value
            if seen is not None and seen.depth:
                self._page(head, work.seen_id, seen.depth)
                is_paged = True
        if is_paged:
            self.cells.load_announced()

    def is_new(self, head: Cell, id: bytes, now: int) -> bool:
        """Whether the packed id has not been seen within the time. Then it counts as seen from now on."""
        self.cells.decode(head)
        seen: SeenIds = EMPTY if head.value is None else head.value
        page = head
        if seen.depth:
            page = self._page(head, id, seen.depth)
            self.cells.decode(page)
            seen = EMPTY if page.value is None else page.value
        if now < seen.seen_at(id) + head.kind.ttl_ms:
            return False
        self.changes.begin_change(page)
        seen = page.value = seen.with_id(id, now)
        if seen.n > FULL:
            self._grow(head)
        if head.sweep_at < now:
            if head is not page:
                self.changes.begin_change(head)
            self.changes.schedule_sweep(head, now)
        return True

    def sweep(self, head: Cell, item: Item, effects: Effects) -> None:
        """Removes the ids that have expired. If any are left, schedules the next sweep."""
        self.cells.decode(head)
        if head.value is None or head.sweep_at != item[TIME]:
            return  # a key that was forgotten, or a later sweep is scheduled
        self.changes.begin_step(item, effects)
        depth: int = head.value.depth
        pages = self._pages(head, depth)
        oldest = END_OF_TIME
        for page in pages:
            seen: SeenIds | None = page.value
            if seen is not None:
                seen = seen.after(item[TIME] - head.kind.ttl_ms)
                page.value = seen if seen.n else None
                page.dirty = True
                if seen.n:
                    oldest = min(oldest, seen.oldest())
        if oldest == END_OF_TIME:
            head.value = None
            head.sweep_at = NEVER
        else:
            if depth:
                self._shrink(head, pages)
            self.changes.schedule_sweep(head, oldest)
        head.dirty = True
        self.changes.end_step()

    def _page(self, head: Cell, id: bytes, depth: int) -> Cell:
        return self._numbered(head, zlib.crc32(id) & ((1 << depth) - 1))

    def _numbered(self, head: Cell, number: int) -> Cell:
        kind = head.kind
        assert isinstance(kind, SeenKind)
        return self.cells.cell(kind, head.owner, str(number).encode())

    def _pages(self, head: Cell, depth: int) -> list[Cell]:
        """All of them, decoded; of depth 0 the head itself."""
        if not depth:
            return [head]
        pages = [self._numbered(head, number) for number in range(1 << depth)]
        self.cells.load([page for page in pages if not page.loaded and not page.dirty])
        for page in pages:
            self.cells.decode(page)
        return pages

    def _grow(self, head: Cell) -> None:
        depth = 0 if head.value is None else head.value.depth
        if depth + 2 > MAX_DEPTH:
            return
        self._distribute(head, self._pages(head, depth), depth + 2)

    def _shrink(self, head: Cell, pages: list[Cell]) -> None:
        """Fewer pages, if those of a key are nearly empty."""
        n = sum([page.value.n for page in pages if page.value is not None])
        depth = to = head.value.depth
        while to and n <= (PAGE_IDS // 4) << to:
            to -= 1
        if to < depth:
            self._distribute(head, pages, to)

    def _distribute(self, head: Cell, pages: list[Cell], depth: int) -> None:
        """Moves the ids of all pages of a key to 2^depth."""
        items: list[tuple[int, bytes]] = []
        for page in pages:
            if page.value is not None:
                items.extend(page.value.items())
        items.sort()  # by time
        for page in dict.fromkeys([head, *pages, *self._pages(head, depth)]):
            self.changes.begin_change(page)
            page.value = None
        head.value = SeenIds(depth, 0, NO_IDS)
        for at, id in items:
            page = self._page(head, id, depth) if depth else head
            page.value = (EMPTY if page.value is None else page.value).with_id(id, at)
