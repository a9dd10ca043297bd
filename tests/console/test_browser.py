"""Pages of a console in a real browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from urllib.parse import parse_qs, urlparse

import grpc
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from moneystate.serving.client import Client
from moneystate.state.v1 import state_pb2 as s
from tests.console.world import HOSTILE, WITHIN_S, World
from tests.waiting import until

# A browser looks up hosts of its maker at its start unless it is told not to.
QUIET = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PAGES = {
    "services": "/",
    "service": "/services/notes",
    "state": "/state",
    "key": "/state/notes?key=plain",
    "records": "/state/notes/note",
    "record": "/state/notes/note/record?key=plain",
    "queries": "/queries",
    "query": "/queries/notes/notes_at?asked=yes&level=LOW",
    "topics": "/topics",
    "topic": "/topics/notes-taken",
    "dead-letters": "/dead-letters/notes",
    "graph": "/services/rollups/pages/graph?device=d0&metric=temp",
    "compare": "/compare?service=notes&one=server+{notes}&other=server+{notes}",
}
QUICK = ("services", "record", "graph")  # the others look much the same to a browser
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PAGES]
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here: pages are not tried in a browser (apt-get install chromium)")
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=[*QUIET, *sandbox])
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test if it logs an error, such as one of the content security policy."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    yield opened
    context.close()
    assert problems == []


def go(page: Page, world: World, path: str) -> None:
    answer = page.goto(f"http://{world.console}{path.format_map(world.addresses)}", wait_until="domcontentloaded")
    assert answer is not None
    assert answer.status == 200


@pytest.mark.parametrize("name", EACH)
def test_pages_have_no_serious_problem_of_accessibility(name: str, page: Page, world: World) -> None:
    go(page, world, PAGES[name])
    page.wait_for_function("typeof htmx !== 'undefined'")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        violations = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in violations if one["impact"] in SERIOUS] == []


@pytest.mark.parametrize("name", EACH)
def test_pages_fit_a_telephone(name: str, page: Page, world: World) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    go(page, world, PAGES[name])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_first_page_follows_the_job(page: Page, world: World) -> None:
    go(page, world, "/")
    batch = page.locator("tr", has=page.get_by_role("rowheader", name="notes")).locator("code")
    before = batch.inner_text()
    world.beat(world.later())
    until(lambda: batch.inner_text() != before, lambda: f"still batch {before}", WITHIN_S)


def test_the_picture_of_a_service_follows_the_rates_of_its_topics(page: Page, world: World) -> None:
    go(page, world, "/services/notes")
    page.get_by_text(re.compile(r"^events, [0-9.,]+/s$")).first.wait_for(timeout=WITHIN_S * 1_000)


def test_the_slider_goes_through_versions(page: Page, world: World) -> None:
    for text in ("one", "two"):
        world.note("slides", text, world.later())
        world.beat(world.later())
        with world.client("notes") as client:
            request = s.GetRequest(name=s.RecordName(state="note", key="slides"))
            until(lambda: _has(client, request, text), str, WITHIN_S)  # noqa: B023
    go(page, world, "/state/notes/note/record?key=slides")
    slider = page.locator("input[type=range]")
    slider.focus()
    slider.press("Home")
    page.wait_for_url("**at-version=**")
    assert page.get_by_role("region", name="Record").get_by_text("one").is_visible()


def test_a_selected_part_of_a_graph_is_looked_at_closer(page: Page, world: World) -> None:
    go(page, world, "/services/rollups/pages/graph?device=d0&metric=temp")
    over = page.locator(".u-over")
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_url("**from=**")
    given = parse_qs(urlparse(page.url).query)
    assert given["from"][0] < given["to"][0]
    assert page.locator(".u-over").is_visible()


@pytest.mark.parametrize("name", ["html", *(pytest.param(name, marks=pytest.mark.long) for name in [*HOSTILE][1:])])
def test_hostile_values_do_nothing(name: str, page: Page, world: World) -> None:
    for path in (f"/state/notes?key={name}", f"/state/notes/note/record?key={name}", f"/topics/notes?key={name}"):
        go(page, world, path)
        assert page.title() != "taken"
        assert page.locator("main img, main script").count() == 0


def test_a_query_is_asked_with_the_keyboard(page: Page, world: World) -> None:
    go(page, world, "/queries/notes/count_since")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("input[name=noteId]").focus()
    page.keyboard.type("plain")
    page.keyboard.press("Tab")
    page.keyboard.type("2020-01-01T00:00:00Z")
    page.keyboard.press("Enter")
    page.wait_for_url("**asked=yes**")
    assert page.get_by_role("heading", name="Result").is_visible()


def test_pages_show_without_scripts(browser: Browser, world: World) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for path in PAGES.values():
        go(page, world, path)
        assert page.locator("h1").count() == 1
    go(page, world, PAGES["graph"])
    assert page.get_by_text("As a table").is_visible()
    context.close()


def _has(client: Client, request: s.GetRequest, text: str) -> bool:
    try:
        return f'"{text}"' in client.call("State.Get", request).records[0].json
    except grpc.RpcError:
        return False
