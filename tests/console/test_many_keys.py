"""A state of 100,000 keys in a real browser: its pages follow each other, and keys are found in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from moneystate.devbroker import DevBroker
from moneystate.state.v1 import state_pb2 as s
from tests.console.test_browser import browser, go, page
from tests.console.world import WITHIN_S, World
from tests.waiting import until

__all__ = ["browser", "page"]

pytestmark = pytest.mark.long
KEYS = 100_000
PAGES = 5  # that the reader goes through
LOADED_S = 300.0


class Many(World):
    """One service with many keys, each 1,000th of the level HIGH."""

    def first_notes(self) -> None:
        for number in range(KEYS):
            self.note(f"k{number:06d}", f"text {number}", 1, "LOW" if number % 1_000 else "HIGH")
            if not number % 10_000:
                self.producer.flush(WITHIN_S)
        self.beat(10)

    def first_readings(self) -> None:
        """None: rollups do not run."""

    def notes_known(self) -> int:
        """Enough for the start once the last key is there."""
        with self.client("notes") as client:
            last = s.BatchGetRequest(names=[s.RecordName(state="note", key=f"k{KEYS - 1:06d}")])
            return KEYS if client.call("State.BatchGet", last).records[0].json else 0


@pytest.fixture(scope="module")
def many(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    with Many(own_broker.bootstrap_servers, tmp_path_factory.mktemp("many"), services=("notes",)) as running:
        until(lambda: running.notes_known() == KEYS, running.jobs[0].err, LOADED_S)
        yield running


def keys_on(page: Page) -> list[str]:
    return [cell.strip() for cell in page.locator("tbody tr td:first-child").all_inner_texts()]


def test_pages_follow_each_other_as_the_server_lists_them(page: Page, many: Many) -> None:
    with many.client("notes") as client:
        listed = client.call("State.List", s.ListRequest(state="note", page_size=1_000)).records
    go(page, many, "/state/notes/note")
    shown = keys_on(page)
    for _ in range(PAGES):
        page.locator("a[rel=next]").click()
        page.wait_for_load_state("domcontentloaded")
        shown += keys_on(page)
    assert len(shown) == 50 * (PAGES + 1)
    assert shown == [one.name.key for one in listed][: len(shown)]


def test_a_key_a_prefix_and_an_index_value_are_found_among_them(page: Page, many: Many) -> None:
    go(page, many, "/state/notes")
    page.get_by_label("Key").fill("k077777")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("text 77777").first.wait_for()
    go(page, many, "/state/notes/note")
    page.get_by_label("Key begins with").fill("k09999")
    page.get_by_role("button", name="List").click()
    page.wait_for_url("**prefix=k09999**")
    assert keys_on(page) == [f"k09999{n}" for n in range(10)]
    go(page, many, "/state/notes/by_level?equals=HIGH")
    first = keys_on(page)
    page.locator("a[rel=next]").click()
    page.wait_for_load_state("domcontentloaded")
    assert first + keys_on(page) == [f"k{n:06d}" for n in range(0, KEYS, 1_000)]
