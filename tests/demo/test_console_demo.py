"""`moneystate demo console` as a user sees it: every page has what its story made.

The pictures of the documentation are made here:
MONEYSTATE_SCREENSHOTS=docs/img make test ARGS="tests/demo/test_console_demo.py -m long".
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page

from tests.console.test_browser import browser, page
from tests.demo.test_demo import environment, started_in
from tests.waiting import until

__all__ = ["browser", "page"]

pytestmark = pytest.mark.long
WITHIN_S = 60.0
COLOURS = 64
SHOTS = os.environ.get("MONEYSTATE_SCREENSHOTS", "")  # a folder for pictures of the pages
DEVICE = "key=device-1"
PAGES = {  # each with a text that it has once the story goes on
    "services": ("/", "rollups"),
    "service": ("/services/rollups", "readings"),
    "rules": ("/services/rollups/rules?plan=yes", "Nothing: the same program"),
    "state": ("/state", "index"),
    "key": (f"/state/rollups?{DEVICE}", "device-1"),
    "records": ("/state/rollups/device", "device-11"),
    "record": (f"/state/rollups/pulse/record?{DEVICE}", "The events behind it"),
    "queries": ("/queries", "silent"),
    "query": ("/queries/rollups/silent?asked=yes&since=2100-01-01T00:00:00Z", "device-11"),
    "topics": ("/topics", "rollups-dead-letters"),
    "topic": ("/topics/readings?limit=3", "deviceId"),
    "dead-letters": ("/dead-letters/rollups", "ahead"),
    "letter": ("/dead-letters/rollups", "ahead"),
    "graph": ("/services/rollups/pages/graph?device=device-1&metric=temp", "Europe/Berlin"),
    "compare": ("/compare?service=rollups", "Compare"),
}


def _stay(page: Page) -> None:
    pass


def _see_events(page: Page) -> None:
    page.get_by_text("The events behind it").first.click()
    page.get_by_text("records of the inputs were read").first.wait_for(timeout=WITHIN_S * 1_000)


def _open_letter(page: Page) -> None:
    page.locator("tbody a").first.click()
    page.get_by_text('"deviceId": "device-3"').first.wait_for(timeout=WITHIN_S * 1_000)


def _compare(page: Page) -> None:
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Compare again").wait_for(timeout=WITHIN_S * 1_000)


# What a reader does on a page.
FURTHER: dict[str, Callable[[Page], None]] = {"record": _see_events, "letter": _open_letter, "compare": _compare}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """That the demo prints. Ctrl-C ends it, and nothing of it is left over."""
    folder, out = tmp_path_factory.mktemp("temp folder"), tmp_path_factory.mktemp("out") / "out"
    command = [sys.executable, "-m", "moneystate.cli.main", "demo", "console"]
    with out.open("wb") as written:
        running = subprocess.Popen(command, env=environment(folder), stdin=subprocess.DEVNULL, stdout=written)
    try:
        addresses = until(lambda: re.findall(r"(http://\S+)/", out.read_text()), out.read_text, WITHIN_S)
        yield str(addresses[0])
        running.send_signal(signal.SIGINT)
        assert running.wait(WITHIN_S) in (0, 130)
        assert list(folder.iterdir()) == []
        assert started_in(folder) == []
    finally:
        for process in started_in(folder):
            process.kill()
        running.wait()


@pytest.mark.parametrize("name", PAGES)
def test_each_page_has_the_story_and_fits_a_telephone(name: str, page: Page, address: str) -> None:
    path, text = PAGES[name]
    page.set_viewport_size({"width": 1000, "height": 760})
    until(lambda: _has(page, address + path, text), lambda: page.locator("main").inner_text(), WITHIN_S)
    FURTHER.get(name, _stay)(page)
    if SHOTS and name != "rules":  # that page has paths of this machine
        page.wait_for_timeout(1_000)  # until graphs are drawn
        _picture(page, Path(SHOTS) / f"console-{name}.png")
    page.set_viewport_size({"width": 360, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def _picture(page: Page, path: Path) -> None:
    """With few colours, which makes it small."""
    whole = Image.open(BytesIO(page.screenshot())).convert("RGB")
    whole.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def _has(page: Page, address: str, text: str) -> bool:
    answer = page.goto(address, wait_until="domcontentloaded")
    return answer is not None and answer.ok and text in page.locator("main").inner_text()
