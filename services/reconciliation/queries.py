"""The queries of reconciliation: open differences and lost items of a pair, and the history of an item."""

from __future__ import annotations

from typing import Final

import moneystate as ms
from services.reconciliation.answers import Difference, Happened, LostItem, differences, history, lost_item
from services.reconciliation.config import Config
from services.reconciliation.keys import key_text
from services.reconciliation.records import Entry, Lost, Seen
from services.reconciliation.rules import waiting

MOST: Final = 100  # of an answer, unless asked for more


def declare_queries(
    service: ms.Service[Config], entries: ms.Value[Entry], further: ms.Map[Seen], lost: ms.Map[Lost]
) -> None:
    queries = Queries(service, entries, further, lost)
    service.query(queries.differences_of)
    service.query(queries.lost_of)
    service.query(queries.history_of)


class Queries:
    def __init__(
        self, service: ms.Service[Config], entries: ms.Value[Entry], further: ms.Map[Seen], lost: ms.Map[Lost]
    ) -> None:
        self.config = service.rules
        self.entries, self.further, self.lost = entries, further, lost
        self.open_differences = service.index("open_differences", entries, by=open_difference)
        self.lost_items = service.index("lost_items", lost, by=lambda lost: (lost.pair, lost.item.event_time))

    def differences_of(self, view: ms.View, pair: str, limit: int = MOST) -> list[Difference]:
        """The open differences of a pair, the oldest event first."""
        answers = (
            difference
            for key, entry in view.find(self.open_differences, (pair,))
            for difference in differences(key, entry, self._actuals_of(view, key, entry))
        )
        return ms.first(answers, limit)

    def lost_of(self, view: ms.View, pair: str, limit: int = MOST) -> list[LostItem]:
        """The lost items of a pair, the oldest event first, as long as its retention keeps them."""
        answers = (lost_item(key, record) for key, _, record in view.find(self.lost_items, (pair,)))
        return ms.first(answers, limit)

    def history_of(self, view: ms.View, source: str, event_id: str) -> list[Happened]:
        """Returns what is known of an item in each pair."""
        happened: list[Happened] = []
        for pair in self.config.pairs:
            key = key_text(pair.name, source, event_id)
            entry = view.get(self.entries, key)
            gone = [record for _, record in view.entries(self.lost, key)]
            happened.extend(history(key, entry, self._actuals_of(view, key, entry), gone))
        return happened

    def _actuals_of(self, view: ms.View, key: str, entry: Entry) -> list[Seen]:
        return waiting(entry, [seen for _, seen in view.entries(self.further, key)] if entry.actuals > 1 else [])


def open_difference(entry: Entry) -> tuple[str, int] | None:
    """Returns where the key stands among the open differences, None where it has none."""
    if entry.expected is None:
        is_open = entry.unexpected_at is not None
    elif entry.matched_at is None:
        is_open = entry.missing_at is not None
    else:
        is_open = entry.extra > 0
    return (entry.pair, entry.event_time) if is_open else None
