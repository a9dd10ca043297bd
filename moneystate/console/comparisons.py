"""Comparisons that run in threads while pages show how far they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from moneystate.console.compared_states import Moment, State
from moneystate.console.comparison import SIDES, Comparison, Records
from moneystate.console.servers import Asked
from moneystate.errors import MoneystateError

MOST_RUNNING: Final = 2
MOST_KEPT: Final = 20
MOST_LISTED: Final = 50  # differences
Key = tuple[str, ...]


@dataclass
class Running:
    """A comparison and how far it is. `problem`: why it has no result."""

    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    moments: list[Moment] = field(default_factory=list)
    result: Comparison | None = None
    problem: str = ""

    @property
    def is_over(self) -> bool:
        return self.result is not None or bool(self.problem)


class Comparisons:
    """The last comparisons, by what was asked."""

    def __init__(self) -> None:
        self.known: dict[Key, Running] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def of(self, key: Key, states: Sequence[str], sides: Callable[[], tuple[State, State]]) -> Running:
        """The comparison that was asked for, which begins with the first call. Raises Asked if too many run."""
        if key in self.known:
            return self.known[key]
        if len(self.tasks) >= MOST_RUNNING:
            raise Asked(
                "RESOURCE_EXHAUSTED", f"{len(self.tasks)} comparisons run. Load the page again once one is over."
            )
        self._forget_old()
        running = self.known[key] = Running()
        task = asyncio.create_task(asyncio.to_thread(_compare, running, states, sides()))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return running

    def _forget_old(self) -> None:
        over = [key for key, running in self.known.items() if running.is_over]
        for key in over[: max(0, len(self.known) - MOST_KEPT + 1)]:
            del self.known[key]


def _compare(running: Running, states: Sequence[str], sides: tuple[State, State]) -> None:
    try:
        running.moments = [side.open() for side in sides]
        with Records() as records:
            for name, side in zip(SIDES, sides, strict=True):
                for items in side.records(states):
                    records.add(name, items)
                    running.read[name] += len(items)
            running.result = records.comparison(MOST_LISTED)
    except Asked as e:
        running.problem = e.message
    except MoneystateError as e:
        running.problem = str(e)
    except Exception as e:
        running.problem = f"the comparison failed: {e}"
        raise
    finally:
        for side in sides:
            side.close()
