"""The forms of conditions that alert rules have, evaluated over samples of metrics. `expr` is the same in PromQL.

A condition holds for label sets, each with a value. Ranges go back from the newest look.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

Labels = tuple[tuple[str, str], ...]
Values = Mapping[Labels, float]


@dataclass(frozen=True)
class Look:
    """Samples by metric and labels, as of `taken_s` of a clock that only goes forward."""

    taken_s: float
    samples: Mapping[str, Values]


class Condition(Protocol):
    @property
    def expr(self) -> str: ...

    @property
    def metrics(self) -> frozenset[str]: ...

    def holds(self, looks: Sequence[Look]) -> Values:
        """`looks`: the newest last."""
        ...


@dataclass(frozen=True)
class Selected:
    """The series of a metric. `values`: of the label `label`; empty: all series."""

    metric: str
    label: str = ""
    values: tuple[str, ...] = ()

    @property
    def expr(self) -> str:
        if not self.label:
            return self.metric
        sign = "=" if len(self.values) == 1 else "=~"
        return f'{self.metric}{{{self.label}{sign}"{"|".join(self.values)}"}}'

    def of(self, look: Look) -> Values:
        samples = look.samples.get(self.metric, {})
        if not self.label:
            return samples
        return {labels: value for labels, value in samples.items() if dict(labels).get(self.label) in self.values}


COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
    "==": lambda value, limit: value == limit,
}


@dataclass(frozen=True)
class Gauge:
    """The newest value."""

    series: Selected
    comparison: str
    limit: int

    @property
    def expr(self) -> str:
        return f"{self.series.expr} {self.comparison} {self.limit}"

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset({self.series.metric})

    def holds(self, looks: Sequence[Look]) -> Values:
        return _compared(self.series.of(looks[-1]), self.comparison, self.limit)


@dataclass(frozen=True)
class IsUp:
    """An endpoint that does not answer. The expression names the jobs of Prometheus; here all endpoints count."""

    expr: str = 'up{job=~"moneystate-.*"} == 0'
    metrics: frozenset[str] = frozenset({"up"})

    def holds(self, looks: Sequence[Look]) -> Values:
        return _compared(Selected("up").of(looks[-1]), "==", 0)


@dataclass(frozen=True)
class Counted:
    """Describes how much (`increase`) or how often (`changes`) a counter has grown."""

    function: str
    series: Selected
    range_m: int
    comparison: str
    limit: int

    @property
    def expr(self) -> str:
        return f"{self.function}({self.series.expr}[{self.range_m}m]) {self.comparison} {self.limit}"

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset({self.series.metric})

    def holds(self, looks: Sequence[Look]) -> Values:
        steps = _steps(self.series, looks, self.range_m)
        how = _changes if self.function == "changes" else sum
        return _compared({labels: how(its) for labels, its in steps.items()}, self.comparison, self.limit)


@dataclass(frozen=True)
class Share:
    """The growth of one counter, as a share of that of another one."""

    part: Selected
    whole: Selected
    share: float
    by: str = "service"
    range_m: int = 10

    @property
    def expr(self) -> str:
        def rate(series: Selected) -> str:
            return f"sum by ({self.by}) (rate({series.expr}[{self.range_m}m]))"

        return f"{rate(self.part)} > {self.share} * {rate(self.whole)}"

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset({self.part.metric, self.whole.metric})

    def holds(self, looks: Sequence[Look]) -> Values:
        part, whole = (
            _summed(_steps(its, looks, self.range_m), frozenset({self.by})) for its in (self.part, self.whole)
        )
        return {labels: its for labels, its in part.items() if labels in whole and its > self.share * whole[labels]}


@dataclass(frozen=True)
class Quantile:
    """A quantile of a histogram's observations, in seconds."""

    quantile: float
    metric: str
    limit_s: float
    by: str = "service"
    range_m: int = 10

    @property
    def expr(self) -> str:
        rate = f"rate({self.metric}_bucket[{self.range_m}m])"
        return f"histogram_quantile({self.quantile}, sum by ({self.by}, le) ({rate})) > {self.limit_s}"

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset({self.metric + "_bucket"})

    def holds(self, looks: Sequence[Look]) -> Values:
        steps = _steps(Selected(self.metric + "_bucket"), looks, self.range_m)
        buckets: defaultdict[Labels, list[tuple[float, float]]] = defaultdict(list)
        for labels, count in _summed(steps, frozenset({self.by, "le"})).items():
            given = dict(labels)
            bound = float(given.pop("le"))
            buckets[tuple(given.items())].append((bound, count))
        values = {labels: quantile_of(self.quantile, its) for labels, its in buckets.items()}
        return _compared(values, ">", self.limit_s)


def quantile_of(quantile: float, buckets: Iterable[tuple[float, float]]) -> float:
    """Computes the quantile of cumulative counts by upper bound, linear within a bucket, as Prometheus does. NaN
    without observations."""
    ordered = sorted(buckets)
    total = ordered[-1][1]
    if not total:
        return math.nan
    rank = quantile * total
    lower, before = 0.0, 0.0
    for bound, count in ordered:
        if count >= rank:
            break
        lower, before = bound, count
    if math.isinf(bound):
        return lower
    return lower + (bound - lower) * (rank - before) / (count - before) if count > before else bound


def _compared(values: Values, comparison: str, limit: float) -> Values:
    is_so = COMPARISONS[comparison]
    return {labels: value for labels, value in values.items() if is_so(value, limit)}


def _steps(series: Selected, looks: Sequence[Look], range_m: int) -> dict[Labels, list[float]]:
    """Returns by how much each counter has grown from look to look within the range. One that has begun again began at
    0."""
    since_s = looks[-1].taken_s - range_m * 60
    values: defaultdict[Labels, list[float]] = defaultdict(list)
    for look in looks:
        if look.taken_s > since_s:
            for labels, value in series.of(look).items():
                values[labels].append(value)
    return {
        labels: [after - before if after >= before else after for before, after in itertools.pairwise(its)]
        for labels, its in values.items() if len(its) > 1
    }  # fmt: skip


def _changes(steps: Sequence[float]) -> float:
    return float(sum(step != 0 for step in steps))


def _summed(steps: Mapping[Labels, Sequence[float]], by: frozenset[str]) -> dict[Labels, float]:
    totals: defaultdict[Labels, float] = defaultdict(float)
    for labels, its in steps.items():
        totals[tuple((name, value) for name, value in labels if name in by)] += sum(its)
    return dict(totals)
