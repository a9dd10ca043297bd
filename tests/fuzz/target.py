"""A target: a strategy for inputs, and a check that any of them must pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import HealthCheck, example, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

Check = Callable[[Any], None]
SUPPRESSED: Final = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@dataclass(frozen=True)
class Target:
    name: str
    inputs: st.SearchStrategy[Any]
    check: Check
    failed_once: tuple[Any, ...]  # inputs that found a bug; they run first
    share: float  # of the examples, for targets with slow inputs

    def run(self, examples: int, seed: int | None = None, before: Callable[[], None] = lambda: None) -> None:
        """Raises what the check raises for the smallest input that fails. `before` runs before each input."""

        def checked(value: Any) -> None:
            before()
            self.check(value)

        test: Any = given(self.inputs)(checked)
        for value in self.failed_once:
            test = example(value)(test)
        if seed is not None:
            test = seeded(seed)(test)
        count = max(1, round(examples * self.share))
        settings(max_examples=count, deadline=None, database=None, suppress_health_check=SUPPRESSED)(test)()


TARGETS: Final[dict[str, Target]] = {}


def target(
    name: str, inputs: st.SearchStrategy[Any], *failed_once: Any, share: float = 1.0
) -> Callable[[Check], Check]:
    """Registers a check. `failed_once`: inputs that found a bug."""

    def register(check: Check) -> Check:
        assert name not in TARGETS
        TARGETS[name] = Target(name, inputs, check, failed_once, share)
        return check

    return register


def result_of(call: Callable[[], Any], *documented: type[Exception]) -> Any:
    """The call's value; None: it raised a documented exception. Other exceptions pass."""
    try:
        return call()
    except documented:
        return None


def all_of(iterator: Iterator[Any], most: int = 100_000) -> list[Any]:
    """The items of an iterator that must end."""
    items = []
    for item in iterator:
        items.append(item)
        assert len(items) < most
    return items
