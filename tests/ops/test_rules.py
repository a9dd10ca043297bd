"""Alert rules, dashboard, runbook and the files that provision them belong together."""

from __future__ import annotations

import re

from tests.ops import rules


def anchors(text: str) -> set[str]:
    return {heading.lower() for heading in re.findall(r"^## (\w+)$", text, re.MULTILINE)}


def sections(text: str) -> dict[str, str]:
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {part.split("\n", 1)[0]: part for part in parts}


def test_each_alert_points_to_its_section_of_the_runbook() -> None:
    runbook = (rules.ROOT / "docs" / "runbook.md").read_text()
    alerts = rules.alerts()
    assert [a.name for a in alerts] == list(sections(runbook))  # and in this order
    for alert in alerts:
        assert alert.runbook == f"docs/runbook.md#{alert.name.lower()}"
        for part in ("**Symptom.** ", "**Look at** ", "**Do.** "):
            assert part in sections(runbook)[alert.name], f"{alert.name}: {part}"
    assert anchors(runbook) == {a.name.lower() for a in alerts}


def test_the_dashboard_and_the_rules_use_metrics_of_all_commands() -> None:
    """Whether a command has them is asked of real ones: test_heartbeat.py, test_command.py and test_serving.py.

    The tests of `table load`, `ingest` and `deliver` ask theirs.
    """
    prefixes = (
        "moneystate_job_", "moneystate_lookup_", "moneystate_replica_", "moneystate_query_", "moneystate_table_",
        "moneystate_ingest_", "moneystate_deliver_",
    )  # fmt: skip
    for prefix in prefixes:
        assert len(rules.used(prefix)) > 1, prefix
    assert rules.used(prefixes) == rules.used("moneystate_")
    panels = [panel for panel in rules.dashboard()["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    assert all(panel["targets"] for panel in panels)


def test_compose_mounts_files_that_exist() -> None:
    compose = (rules.ROOT / "compose.yaml").read_text()
    mounts = re.findall(r"^ +- \./(ops\S*?):", compose, re.MULTILINE)
    assert len(mounts) == 4
    for path in mounts:
        assert (rules.ROOT / path).exists(), path
    (folder,) = re.findall(r"path: (\S+) }", (rules.OPS / "grafana/provisioning/dashboards/moneystate.yml").read_text())
    assert f"- ./ops/grafana/dashboards:{folder}:ro" in compose
    (uid,) = re.findall(r"uid: (\S+)", (rules.OPS / "grafana/provisioning/datasources/prometheus.yml").read_text())
    assert {panel["datasource"]["uid"] for panel in rules.dashboard()["panels"] if "datasource" in panel} == {uid}
