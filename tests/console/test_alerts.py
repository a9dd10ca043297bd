"""The console's own alerts: the rules of ops/alerts.yml, on the same faults of real metrics as promtool's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from moneystate.console.alert_forms import Labels, Look, Selected, Share, quantile_of
from moneystate.console.alert_rules import RULES, Rule
from moneystate.console.alerts import Alert, Alerts
from tests.ops import rules
from tests.ops.faults import FAULTS, MINUTES, NORMAL, World

TEXTS = {alert.name: alert.text for alert in rules.alerts()}
JOINED = {"MoneystateLookupsWait", "MoneystateTableNotLoaded", "MoneystateIngestRefuses"}  # by `and on`
NAME = re.compile(r"(\w+)\{(.*)\}")
LABEL = re.compile(r'(\w+)="([^"]*)"')
SUMMARY = re.compile(r"summary: (.*?)\n +runbook: (\S+)", re.DOTALL)


def one_line(text: str) -> str:
    return " ".join(text.replace(">-", "").split())


def test_each_rule_is_one_of_ops_or_named_as_missing() -> None:
    assert {rule.name for rule in RULES} | JOINED == set(TEXTS)
    assert all(" and on (" in TEXTS[name] for name in JOINED)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_the_same_as_in_ops(rule: Rule) -> None:
    text = TEXTS[rule.name]
    expr = re.search(r"expr: (.*?)\n +(?:for|labels): ", text, re.DOTALL)
    notes = SUMMARY.search(text)
    assert expr is not None
    assert notes is not None
    assert rule.condition.expr == one_line(expr[1])
    assert f"severity: {rule.severity} " in text
    minutes = re.search(r" for: (\d+)m\n", text)
    assert rule.for_m == (int(minutes[1]) if minutes else 0)
    summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"{\1}", one_line(notes[1]).strip('"'))
    summary = summary.replace("{{ $value | humanizeDuration }}", "{value}")
    assert summary.startswith(rule.summary)
    assert rule.runbook == notes[2]


def firing(series: rules.Series) -> Iterator[list[Alert]]:
    """Minute by minute."""
    alerts = Alerts()
    named = [(_of_name(name), values) for name, values in series.items()]
    for minute in range(max(map(len, series.values()))):
        given = [(*name, values[minute] if minute < len(values) else None) for name, values in named]
        present = [(metric, labels, value) for metric, labels, value in given if value is not None]
        yield alerts.look(minute * 60.0, minute * 60_000, present)


def _of_name(text: str) -> tuple[str, Labels]:
    match = NAME.fullmatch(text)
    assert match is not None
    return match[1], tuple(LABEL.findall(match[2]))


@pytest.mark.parametrize(("fault", "fired"), FAULTS, ids=lambda part: " ".join(part) if isinstance(part, dict) else "")
def test_it_fires_and_resolves_as_in_prometheus(fault: Mapping[str, Any], fired: set[str]) -> None:
    world = World(**fault)
    world.live(MINUTES)
    world.heal(fault)
    by_minute = [{alert.name for alert in its} for its in firing(world.live(MINUTES))]
    assert by_minute[MINUTES - 1] == fired - JOINED
    assert set().union(*by_minute) == fired - JOINED
    assert by_minute[-1] == set()


@pytest.mark.parametrize("normal", [{}, *NORMAL], ids=lambda normal: " ".join(normal) or "healthy")
def test_all_are_quiet(normal: Mapping[str, Any]) -> None:
    assert not any(firing(World(**normal).live(MINUTES)))


def test_an_alert_says_since_when_and_the_most_severe_is_first() -> None:
    *_, last = firing(World(batch_ends=False).live(MINUTES))
    assert [alert.severity for alert in last] == ["critical", "critical", "warning"]
    hangs = next(alert for alert in last if alert.name == "MoneystateBatchHangs")
    assert (hangs.service, hangs.since_ms) == ("money-enrichment", 7 * 60_000)
    assert hangs.summary.startswith("A batch of money-enrichment has run for ")


def test_a_quantile_is_that_of_prometheus() -> None:
    inf = float("inf")
    assert quantile_of(0.5, [(1.0, 10.0), (2.0, 20.0), (inf, 20.0)]) == 1.0
    assert quantile_of(0.75, [(inf, 20.0), (2.0, 20.0), (1.0, 10.0)]) == 1.5
    assert quantile_of(0.99, [(1.0, 10.0), (inf, 20.0)]) == 1.0
    assert quantile_of(0.9, [(1.0, 0.0), (inf, 0.0)]) != quantile_of(0.9, [(1.0, 0.0), (inf, 0.0)])


def test_a_counter_that_begins_again_has_grown() -> None:
    part, whole = "part", "whole"
    looks = [
        Look(60.0 * n, {part: {(("service", "s"),): its}, whole: {(("service", "s"),): 100.0 * n}})
        for n, its in enumerate([50.0, 55.0, 10.0])
    ]
    assert Share(Selected(part), Selected(whole), 0.07).holds(looks) == {(("service", "s"),): 15.0}
    assert Share(Selected(part), Selected(whole), 0.08).holds(looks) == {}
