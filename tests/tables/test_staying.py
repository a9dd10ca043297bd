"""A loader that stays: when it loads, what it says about itself, and what ends it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from moneystate.errors import InstanceError, MoneystateError, SourceError
from moneystate.monitoring import Pulse
from moneystate.tables.columns import Declared
from moneystate.tables.comparison import Counts
from moneystate.tables.files import FileSource
from moneystate.tables.loading import Ended, Load, Loader
from moneystate.tables.staying import Every, Metrics, Staying, Watching

LOAD = Load(Counts(5, 2, 1, 4), 3, "t.csv", 0)


class Clock:
    """Time that goes on while somebody waits. It ends the loader at `end_s`."""

    def __init__(self, end_s: float) -> None:
        self.now_s = 100.0
        self._end_s = self.now_s + end_s

    def __call__(self) -> float:
        return self.now_s

    def wait(self, timeout_s: float | None = None) -> bool:
        self.now_s += timeout_s or 0.0
        return self.now_s >= self._end_s


class Loads:
    """A loader with the outcomes of its loads; the last one is for all that follow."""

    topic = "prices"

    def __init__(self, clock: Clock, *outcomes: Load | Exception) -> None:
        self._clock = clock
        self._outcomes = list(outcomes)
        self.at: list[float] = []

    def load(self) -> Load:
        self.at.append(round(self._clock.now_s - 100.0, 3))
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def staying(clock: Clock, loads: Loads, every_s: float = 10.0) -> Staying:
    return Staying(cast(Loader, loads), Every(every_s), clock, Pulse(clock))


def metrics(one: Staying) -> dict[str, float]:
    return {s.name: s.value for family in Metrics(one, "prices").collect() for s in family.samples}


def test_it_loads_at_once_and_then_after_each_interval() -> None:
    clock = Clock(25.0)
    loads = Loads(clock, LOAD)
    one = staying(clock, loads)
    assert (one.ready().is_good, one.live().is_good) == (False, True)
    one.run()
    assert loads.at == [0.0, 10.0, 20.0]
    assert one.ready() == (True, "loaded 5 s ago")
    assert metrics(one) == {
        "moneystate_table_loads_total": 3, "moneystate_table_failures_total": 0,
        "moneystate_table_changed_rows_total": 6, "moneystate_table_deleted_rows_total": 3,
        "moneystate_table_load_age_seconds": 5.0, "moneystate_table_rows": 5, "moneystate_table_skipped_rows": 3,
    }  # fmt: skip


def test_a_failure_is_tried_again_ever_more_rarely_and_said() -> None:
    clock = Clock(20.0)
    loads = Loads(clock, SourceError("no file"))
    one = staying(clock, loads, every_s=100.0)
    one.run()
    assert loads.at == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert one.ready() == (False, "the last load failed: no file")
    assert one.live().is_good
    assert metrics(one)["moneystate_table_failures_total"] == 5
    assert "moneystate_table_load_age_seconds" not in metrics(one)


def test_it_is_ready_again_after_a_failure() -> None:
    clock = Clock(5.0)
    one = staying(clock, Loads(clock, SourceError("no file"), LOAD))
    one.run()
    assert one.ready().is_good


@pytest.mark.parametrize(("outcome", "error"), [(InstanceError("another"), InstanceError), (Ended(), None)])
def test_another_writer_and_a_signal_end_it(outcome: Exception, error: type[MoneystateError] | None) -> None:
    clock = Clock(100.0)
    one = staying(clock, Loads(clock, outcome))
    if error is None:
        one.run()
    else:
        with pytest.raises(error):
            one.run()
    assert clock.now_s == 100.0


def test_a_load_that_takes_long_is_alive() -> None:
    clock = Clock(5.0)
    loads = Loads(clock, LOAD)
    one = staying(clock, loads)
    health: list[bool] = []

    def load() -> Load:
        clock.now_s += 1_000.0
        health.append(one.live().is_good)
        return LOAD

    loads.load = load  # type: ignore[method-assign]
    one.run()
    assert health == [True]


def test_a_loop_that_stands_still_is_not_alive() -> None:
    clock = Clock(1.0)
    one = staying(clock, Loads(clock, LOAD))
    one.run()
    clock.now_s += 1_000.0
    assert not one.live().is_good


def test_a_file_is_loaded_when_it_has_changed_or_another_one_has_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    when = Watching(FileSource(path, None, Declared(("sku",))))
    due: list[bool] = []

    def look() -> None:
        due.append(when.is_due(0.0))
        when.begins(0.0)

    look()  # there is no file: the load says so
    look()
    path.write_text("a")
    look()
    look()
    with path.open("a") as more:
        more.write("b")
    look()
    (tmp_path / "other").write_text("ab")
    (tmp_path / "other").rename(path)
    look()
    look()
    assert due == [True, False, True, False, True, True, False]
