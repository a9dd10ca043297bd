"""What came out against what was promised: a demo that could not fail would show nothing."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from services.enrichment.demo import scenario
from services.enrichment.demo.promises import Arrivals, ChapterVerdict, DeadLetter, Place, judge
from services.enrichment.demo.runner import KNOWLEDGE, Outcome
from services.enrichment.demo.scenario import Chapter, Enriched, Send
from services.enrichment.demo.view import View

CHAPTERS = [chapter.with_service(KNOWLEDGE.country) for chapter in scenario.load()]
FIRST, _, THIRD, LAST = CHAPTERS
MONEY = [p.outcome for p in FIRST.promises if p.outcome]  # of steps 3, 5 and 6


def verdict(money: list[Enriched], chapter: Chapter = FIRST, letters: tuple[DeadLetter, ...] = ()) -> ChapterVerdict:
    return judge(chapter, places(chapter), Arrivals(money, list(letters)))


def places(chapter: Chapter) -> dict[Place, Send]:
    return {(send.topic, 0, offset): send for offset, send in enumerate(chapter.sends)}


def broken(judged: ChapterVerdict) -> list[int]:
    return [step.step for step in judged.steps if not step.held]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_was_promised_is_held(chapter: Chapter) -> None:
    judged = verdict([p.outcome for p in chapter.promises if p.outcome], chapter)
    assert judged.held
    assert [step.step for step in judged.steps] == chapter.steps


@pytest.mark.parametrize(
    "wrong",
    [
        replace(MONEY[1], status="LOOKUP_FAILED"),
        replace(MONEY[1], client_country="FI"),
        replace(MONEY[1], client_country=None),
        replace(MONEY[1], user_info=None),
        replace(MONEY[1], user_info=("1978", "PO")),
        replace(MONEY[1], first_occurrence=True),
    ],
)
def test_a_wrong_output_breaks_its_step(wrong: Enriched) -> None:
    judged = verdict([MONEY[0], wrong, MONEY[2]])
    assert (broken(judged), judged.held) == ([5], False)


def test_a_missing_output_breaks_its_step() -> None:
    assert broken(verdict([MONEY[0], MONEY[2]])) == [5]
    assert broken(verdict([])) == [3, 5, 6]


def test_a_duplicate_that_comes_out_breaks_the_step_that_was_to_drop_it() -> None:
    judged = verdict([MONEY[0], MONEY[0], *MONEY[1:]])
    assert broken(judged) == [4]
    assert judged.steps[3].outputs == (MONEY[0],)


def test_an_output_that_comes_twice_breaks_its_step() -> None:
    assert broken(verdict([*MONEY, MONEY[2]])) == [6]


def test_money_that_the_chapter_did_not_send_is_a_stray() -> None:
    judged = verdict([*MONEY, replace(MONEY[0], money_id="another")])
    assert (broken(judged), judged.held) == ([], False)
    assert "another" in judged.strays[0]


def test_the_same_money_id_in_a_later_chapter_is_judged_there() -> None:
    old = LAST.promises[0].outcome
    assert old is not None
    third = [p.outcome for p in THIRD.promises if p.outcome]
    assert old in third
    assert broken(verdict([*third, old], THIRD)) == [11]
    assert broken(verdict([], LAST)) == [12]


def test_a_dead_letter_breaks_the_step_that_sent_the_record() -> None:
    place = next(place for place, send in places(FIRST).items() if send.step == 1)
    judged = verdict(MONEY, letters=(DeadLetter(place, "malformed"),))
    assert broken(judged) == [1]
    assert judged.steps[0].refused == ("malformed",)


def test_a_dead_letter_of_no_step_is_a_stray() -> None:
    judged = verdict(MONEY, letters=(DeadLetter(("user-events", 1, 99), "malformed"),))
    assert (broken(judged), judged.held) == ([], False)


# --- as it is shown ---


def shown(*verdicts: ChapterVerdict, strays: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    view = View(Console(file=out, width=80, highlight=False), Console(file=io.StringIO()))
    view.intro(CHAPTERS)
    for judged in verdicts:
        view.chapter(judged, 1.0, with_start=False)
    view.summary(Outcome(list(verdicts), list(strays)))
    return out.getvalue()


def test_held_promises_are_readable_in_80_columns_without_colour() -> None:
    text = shown(verdict(MONEY))
    assert "BROKEN" not in text
    assert "All 6 steps held" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_broken_promise_shows_what_came_and_what_was_promised() -> None:
    text = shown(verdict([MONEY[0], replace(MONEY[1], client_country="FI"), MONEY[2]]))
    assert text.count("BROKEN") == 1
    assert text.index("session in FI") < text.index("promised was:") < text.rindex("session in CA")
    assert "5 of 6 steps held; broken in step 5." in " ".join(text.split())


def test_a_stray_after_the_last_chapter_is_shown_and_breaks_the_run() -> None:
    text = shown(verdict(MONEY), strays=("money m",))
    assert "There came also money m." in text
    assert "All 6 steps held" not in text
    assert not Outcome([verdict(MONEY)], ["money m"]).held
