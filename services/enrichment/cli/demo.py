"""`moneystate demo enrichment`: the whole path on its own broker, with made-up events."""

from __future__ import annotations

from services.enrichment.demo import runner, scenario
from services.enrichment.demo.view import View


def demo() -> bool:
    """Sends a scenario through a real broker and the real job, and shows for each step whether its promise held."""
    view = View()
    chapters = [chapter.with_service(runner.KNOWLEDGE.country) for chapter in scenario.load()]
    view.intro(chapters)
    outcome = runner.run(chapters, view)
    view.summary(outcome)
    return outcome.held
