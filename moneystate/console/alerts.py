"""The alerts that fire, by the samples that the console has taken itself."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from moneystate.console.alert_forms import Labels, Look
from moneystate.console.alert_rules import CRITICAL, RULES, Rule
from moneystate.console.rendering import age

LONGEST_S: Final = 30 * 60.0  # range of a rule
STEP_S: Final = 30.0  # between the looks that ranges are made of
METRICS: Final = frozenset[str]().union(*(rule.condition.metrics for rule in RULES))


@dataclass(frozen=True)
class Alert:
    """An alert that fires. `service`: that it is about; empty: none. `since_ms`: when its condition began to hold."""

    name: str
    severity: str
    service: str
    summary: str
    runbook: str
    since_ms: int | None


def most_severe_first(alerts: Iterable[Alert]) -> list[Alert]:
    return sorted(alerts, key=lambda one: (one.severity != CRITICAL, one.name, one.service))


@dataclass
class Alerts:
    """`since`: when a rule began to hold, by its name and labels."""

    rules: Sequence[Rule] = RULES
    past: deque[Look] = field(default_factory=deque)
    since: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def look(self, now_s: float, now_ms: int, samples: Iterable[tuple[str, Labels, float]]) -> list[Alert]:
        """Returns the alerts that fire. `now_s`: of a clock that only goes forward; `samples`: with the label
        `instance`."""
        by_metric: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
        for metric, labels, value in samples:
            if metric in METRICS:
                by_metric[metric][labels] = value
        now = Look(now_s, by_metric)
        looks = [*self.past, now]
        self._keep(now)
        since: dict[tuple[str, Labels], float] = {}
        firing = []
        for rule in self.rules:
            for labels, value in rule.condition.holds(looks).items():
                began_s = since[rule.name, labels] = self.since.get((rule.name, labels), now_s)
                if now_s - began_s >= rule.for_m * 60:
                    firing.append(_alert(rule, dict(labels), value, now_ms - int((now_s - began_s) * 1_000)))
        self.since = since
        return most_severe_first(firing)

    def _keep(self, now: Look) -> None:
        if not self.past or now.taken_s - self.past[-1].taken_s >= STEP_S:
            self.past.append(now)
        while now.taken_s - self.past[0].taken_s > LONGEST_S:
            self.past.popleft()


def _alert(rule: Rule, labels: dict[str, str], value: float, since_ms: int) -> Alert:
    texts = defaultdict(str, labels, value=age(int(value * 1_000)))
    summary = rule.summary.format_map(texts)
    return Alert(rule.name, rule.severity, labels.get("service", ""), summary, rule.runbook, since_ms)
