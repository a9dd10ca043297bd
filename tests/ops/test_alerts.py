"""Each alert fires when it should, then resolves, and is quiet otherwise: on the real metrics, a minute apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ops import rules
from tests.ops.faults import FAULTS, MINUTES, NORMAL, World

assert rules.promtool() is not None, "promtool is missing: make test ARGS=tests/ops, or apt-get install prometheus"


def test_each_alert_is_provoked() -> None:
    assert {alert.name for alert in rules.alerts()} == set().union(*(fired for _, fired in FAULTS))


@pytest.mark.parametrize(("fault", "fired"), FAULTS, ids=lambda part: " ".join(part) if isinstance(part, dict) else "")
def test_it_fires_and_resolves(fault: dict[str, Any], fired: set[str], tmp_path: Path) -> None:
    """The fault lasts for some minutes, and the world is healthy for as many."""
    world = World(**fault)
    world.live(MINUTES)
    world.heal(fault)
    rules.check_resolved(world.live(MINUTES), fired, MINUTES - 1, tmp_path)


@pytest.mark.parametrize("normal", [{}, *NORMAL], ids=lambda normal: " ".join(normal) or "healthy")
def test_all_are_quiet(normal: dict[str, Any], tmp_path: Path) -> None:
    rules.check_firing(World(**normal).live(MINUTES), set(), tmp_path)


def test_a_standing_watermarks_alert_names_the_partition(tmp_path: Path) -> None:
    series = World(watermark_moves=False).live(MINUTES)
    labels = {"instance": "job", "job": "moneystate-job", "service": "money-enrichment", "severity": "critical"}
    summary = "money-enrichment reads records, but its watermark stands. wallet-events/0 holds it."
    rules.check_alert(series, "MoneystateWatermarkStands", labels, summary, tmp_path)


def test_promtool_accepts_rules_and_configuration() -> None:
    rules.run_promtool("check", "rules", rules.ALERTS)
    rules.run_promtool("check", "config", rules.OPS / "prometheus.yml")


def test_promtool_accepts_the_dashboards_expressions(tmp_path: Path) -> None:
    recorded = [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(rules.expressions())]
    file = tmp_path / "dashboard.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    rules.run_promtool("check", "rules", file)
