"""Mistakes in the configuration are told at the start, a line each."""

from __future__ import annotations

from typing import Any

import pytest

from moneystate.errors import ServiceError
from services.rollups.catalog import Catalog
from services.rollups.config import Config, DeviceConfig, MetricConfig, matches
from services.rollups.service import rollups
from tests.services.rollups.story import DAY, HOUR, MIN, config


def mistakes(**given: Any) -> list[str]:
    with pytest.raises(ServiceError) as e:
        rollups(config(**given))
    return [line.strip() for line in e.value.message.splitlines()[1:]]


def test_each_mistake_has_a_line() -> None:
    metrics = (
        MetricConfig("t*"), MetricConfig("temp"), MetricConfig("a", digits=10), MetricConfig("b", min=2, max=1),
        MetricConfig("c", kind="counter", min=-1), MetricConfig("d", max=1e15), MetricConfig(""),
    )  # fmt: skip
    result = mistakes(
        metrics=metrics, devices=(DeviceConfig("x", zone="Mars/Base", interval_ms=0),), zone="Berlin", tzdata="2020a",
        exact_ms=1, horizon_ms=MIN, readings_bound_ms=-1, keep_15m_ms=1,
    )  # fmt: skip
    places = [line.partition(":")[0] for line in result]
    assert places == [
        "metrics[1] 'temp'", "metrics[2] 'a'.digits", "metrics[3] 'b'", "metrics[4] 'c'.min", "metrics[5] 'd'.max",
        "metrics[6] ''", "zone", "devices[0] 'x'.zone", "devices[0] 'x'.interval", "tzdata", "exact", "horizon",
        "readings_bound", "keep_15m",
    ]  # fmt: skip


def test_without_metrics_it_does_not_start() -> None:
    assert rollups(Config()).unfit is not None
    assert rollups(config()).unfit is None


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "ab", True),
        ("*", "", True),
        ("*.x", "a.x", True),
        ("*.x", "axx", False),
    ],
)
def test_patterns(pattern: str, name: str, is_match: bool) -> None:
    assert matches(pattern, name) == is_match


def test_the_first_match_counts() -> None:
    catalog = Catalog(config(devices=(DeviceConfig("d", site="one"), DeviceConfig("d*", interval_ms=HOUR))))
    assert catalog.settings("d") == ("UTC", "one", MIN)
    assert catalog.settings("dd") == ("UTC", "", HOUR)
    metric = catalog.metric("x1")
    assert metric is not None
    assert metric.digits == 2
    assert catalog.metric("y") is None


def test_digits_stay_as_they_were_when_a_metric_came() -> None:
    names = Catalog(config()).with_metric("", "temp")
    changed = Catalog(config(metrics=(MetricConfig("temp", digits=5),)))
    assert changed.table(names).by_name["temp"].scale == 10
    assert config().raw_ms == 2 * DAY
