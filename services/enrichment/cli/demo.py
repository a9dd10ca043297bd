"""`moneystate demo`: the whole path on a broker of its own, with made-up events."""

from __future__ import annotations

import typer

from services.enrichment.demo import runner, scenario
from services.enrichment.demo.view import View

BROKEN_EXIT_CODE = 1


def demo() -> None:
    """Send a scenario through a real broker and the real job, and show for each step whether its promise was held.

    Takes less than a minute and leaves nothing behind. Ends with code 0 if every promise was held, else with 1.
    """
    view = View()
    chapters = [chapter.with_service(runner.KNOWLEDGE.country) for chapter in scenario.load()]
    view.intro(chapters)
    outcome = runner.run(chapters, view)
    view.summary(outcome)
    if not outcome.held:
        raise typer.Exit(BROKEN_EXIT_CODE)
