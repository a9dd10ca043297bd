"""A service as a job: what is kept from one run to the next, and what jobs cannot do yet."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import services
from examples.orders.orders import Closed
from moneystate import Service
from moneystate.engine.plan import PartitionPlan, Plan, rules_hash
from moneystate.errors import ServiceError
from moneystate.job.checkpoint import Checkpoint
from moneystate.kafka.source_spec import load_decoder
from moneystate.runtime import folders
from moneystate.runtime.job import check_runs, job_spec, service_spec

ORDERS = "examples.orders.orders:service"


def test_the_numbers_of_topics_are_kept_whatever_is_declared_later() -> None:
    first = job_spec(ORDERS, {})
    assert first.rules["topics"] == {"orders": 0, "payments": 1}
    later = job_spec(ORDERS, {"topics": {"payments": 0, "abandoned": 1}})
    assert later.rules["topics"] == {"abandoned": 1, "orders": 2, "payments": 0}
    assert {t.name: t.code for t in later.inputs} == {"orders": 2, "payments": 0}
    assert service_spec(ORDERS, later.rules).state.topics[2] == "orders"
    decoder: Any = load_decoder(later.decoder)
    assert decoder.plan.codes == later.rules["topics"]


def test_topics_take_records_that_hold_several_events() -> None:
    assert job_spec(ORDERS, {}).largest == {}
    job = job_spec("services.joining.service:joining", {"services": ["a", "b"], "max_record_bytes": 1_000})
    assert job.largest == {"joined": 6_000, "joining-state": 6_000}


def test_a_job_by_the_rules_that_a_checkpoint_has_kept_is_the_same_job() -> None:
    job = job_spec(ORDERS, {"wait_ms": 5, "bound_ms": 7, "on_error": "dead-letter"})
    again = job_spec(ORDERS, json.loads(json.dumps(job.rules)))
    assert again.rules == job.rules
    assert again.is_program_of(job.rules)
    processor: Any = pickle.loads(pickle.dumps(again.make))()
    assert processor.plan.rules.wait_ms == 5
    assert processor.dead_letter_errors


def test_somebody_elses_package_named_services_has_its_schemas_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed in one folder with this project's."""
    (tmp_path / "moneystate" / "_avro" / "joining").mkdir(parents=True)
    (tmp_path / "services" / "shop").mkdir(parents=True)
    for name in ("parcels", "joining"):
        text = f"import moneystate as ms\nservice = ms.Service('{name}')\n"
        (tmp_path / "services" / "shop" / f"{name}.py").write_text(text)
    monkeypatch.setattr(folders, "PACKAGE", tmp_path / "moneystate")
    monkeypatch.setattr(services, "__path__", [*services.__path__, str(tmp_path / "services")])
    assert folders.folder_of("services.shop.parcels:service") == tmp_path / "services" / "shop" / "avro" / "parcels"
    assert folders.folder_of("services.shop.joining:service") == tmp_path / "moneystate" / "_avro" / "joining"


LIMITED = "tests.api.services.limited:service"


def test_the_limits_of_an_input_are_rules_that_a_checkpoint_keeps() -> None:
    job = job_spec(LIMITED, {"bound_ms": 7, "slack_ms": 40})
    assert job.rules["bounds"] == {"fast": 0, "slow": 90}
    assert job.rules["max_futures"] == {"slow": 5}
    assert job.bounds() == {0: 0, 1: 90, 2: 7}
    assert "bounds" not in job_spec(ORDERS, {}).rules
    recorded = {**job.rules, "bounds": {"slow": 1}}  # of an earlier version of the service
    again = job_spec(LIMITED, recorded)
    assert again.bounds() == {0: 7, 1: 1, 2: 7}
    assert again.rules == recorded


def test_a_batch_planned_with_other_bounds_names_them(tmp_path: Path) -> None:
    old, new = job_spec(LIMITED, {"slack_ms": 40}).rules, job_spec(LIMITED, {"slack_ms": 41}).rules
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.keep_rules(old)
    plan = Plan(rules_hash(old), {"fast": "id"}, {("fast", 0): PartitionPlan(5, "active")})
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n" + json.dumps(plan.to_offset()))
    assert checkpoint.changed_rules(new) == {
        "slack_ms": (40, 41), "bounds": ({"fast": 0, "slow": 90}, {"fast": 0, "slow": 91}),
    }  # fmt: skip


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.output("shop-state", Closed, key="order_id"),
    ],
)
def test_what_jobs_cannot_do_yet_is_refused(declare: Callable[[Service[None]], object]) -> None:
    service = Service("shop")
    check_runs(service)
    declare(service)
    with pytest.raises(ServiceError):
        check_runs(service)
