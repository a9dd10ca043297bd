"""The alert rules and the dashboard, and promtool over them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.samples import Sample

from tests.scrape import Scrape

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "ops"
ALERTS = OPS / "alerts.yml"
DASHBOARD = OPS / "grafana" / "dashboards" / "moneystate.json"
METRIC = re.compile(r"\bmoneystate_\w+")
STEP_S = 60
QUIET_STEPS = 31
FIRING = 'max by (alertname) (ALERTS{alertstate="firing"})'
EVER_FIRED = 'max by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1d]))'

# Values, one a step, by name and labels as promtool writes them. None: the series is not there.
Series = Mapping[str, Sequence[float | None]]


class Alert(NamedTuple):
    name: str
    text: str  # of the rule

    @property
    def runbook(self) -> str:
        found_one = re.search(r"^ +runbook: (\S+)$", self.text, re.MULTILINE)
        assert found_one, f"{self.name} has no runbook"
        return found_one[1]


def alerts() -> list[Alert]:
    _, *parts = re.split(r"^ +- alert: ", ALERTS.read_text(), flags=re.MULTILINE)
    return [Alert(part.split("\n", 1)[0], part) for part in parts]


def dashboard() -> dict[str, Any]:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return board


def expressions() -> list[str]:
    """The dashboard's, with values for its variables."""
    texts = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    return [text.replace("$__rate_interval", "5m").replace("$service", ".*") for text in texts]


def used(prefixes: str | tuple[str, ...]) -> set[str]:
    """The metrics in rules and dashboard whose names begin like this."""
    names = {name for file in (ALERTS, DASHBOARD) for name in METRIC.findall(file.read_text())}
    return {name for name in names if name.startswith(prefixes)}


def promtool() -> str | None:
    return tool_at("promtool")


def tool_at(name: str) -> str | None:
    """Where a program of Prometheus is: on the path, or where `make test` put it."""
    own = Path(sys.executable).parent / name
    return shutil.which(name) or (str(own) if own.exists() else None)


def run_promtool(*arguments: object) -> None:
    tool = promtool()
    assert tool is not None
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def name_of(sample: Sample, **more: str) -> str:
    labels = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted({**sample.labels, **more}.items()))
    return f"{sample.name}{{{labels}}}"


def check_healthy(scrape: Scrape, prefixes: str | tuple[str, ...], folder: Path) -> None:
    """A real command's page: it has all metrics that rules and dashboard take from it, and makes no alert fire."""
    assert used(prefixes) - scrape.names() == set()
    if promtool() is not None:  # tests/ops says so where it is missing
        check_firing({name_of(s): [s.value] * QUIET_STEPS for s in scrape.samples()}, set(), folder)


def check_firing(series: Series, alert_names: set[str], folder: Path) -> None:
    """Exactly these alerts fire at the end of the series."""
    _try(series, {"promql_expr_test": [_finds(FIRING, alert_names, _end(series))]}, folder)


def check_resolved(series: Series, alert_names: set[str], step: int, folder: Path) -> None:
    """Exactly these alerts fire at this step, no other ever does, and none at the end of the series."""
    end = _end(series)
    during, ever = _finds(FIRING, alert_names, _time(step)), _finds(EVER_FIRED, alert_names, end)
    _try(series, {"promql_expr_test": [during, ever, _finds(FIRING, set(), end)]}, folder)


def check_alert(series: Series, name: str, labels: dict[str, str], summary: str, folder: Path) -> None:
    """The alert fires once at the end of the series, with these labels and this text."""
    (alert,) = [a for a in alerts() if a.name == name]
    wanted = {"exp_labels": labels, "exp_annotations": {"summary": summary, "runbook": alert.runbook}}
    alone = {"alertname": name, "eval_time": _end(series), "exp_alerts": [wanted]}
    _try(series, {"alert_rule_test": [alone]}, folder)


def _finds(expr: str, alert_names: set[str], eval_time: str) -> dict[str, Any]:
    wanted = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alert_names)]
    return {"expr": expr, "eval_time": eval_time, "exp_samples": wanted}


def _end(series: Series) -> str:
    return _time(max(map(len, series.values())) - 1)


def _time(step: int) -> str:
    return f"{step * STEP_S}s"


def _try(series: Series, wanted: dict[str, Any], folder: Path) -> None:
    given = [{"series": name, "values": " ".join(map(_text, values))} for name, values in series.items()]
    test = {"interval": f"{STEP_S}s", "input_series": given, **wanted}
    file = folder / "test.json"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": f"{STEP_S}s", "tests": [test]}))
    run_promtool("test", "rules", file)


def _text(value: float | None) -> str:
    return "_" if value is None else repr(float(value)).replace("inf", "Inf").replace("nan", "NaN")
