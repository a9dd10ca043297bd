"""A plain service as a job: what is kept from one run to the next, and what jobs cannot do yet."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from examples.orders.orders import Closed, OrderPlaced
from moneystate import Service
from moneystate.api.job import check_runs, plain_job, plain_service
from moneystate.errors import ServiceError
from moneystate.kafka.source_spec import load_decoder

ORDERS = "examples.orders.orders:service"


def test_the_numbers_of_topics_are_kept_whatever_is_declared_later() -> None:
    first = plain_job(ORDERS, {})
    assert first.rules["topics"] == {"orders": 0, "payments": 1}
    later = plain_job(ORDERS, {"topics": {"payments": 0, "abandoned": 1}})
    assert later.rules["topics"] == {"abandoned": 1, "orders": 2, "payments": 0}
    assert {t.name: t.code for t in later.inputs} == {"orders": 2, "payments": 0}
    assert plain_service(ORDERS, later.rules).state.topics[2] == "orders"
    decoder: Any = load_decoder(later.decoder)
    assert decoder.plan.codes == later.rules["topics"]


def test_a_job_by_the_rules_that_a_checkpoint_has_kept_is_the_same_job() -> None:
    job = plain_job(ORDERS, {"wait_ms": 5, "bound_ms": 7, "on_error": "dead-letter"})
    again = plain_job(ORDERS, json.loads(json.dumps(job.rules)))
    assert again.rules == job.rules
    assert again.is_program_of(job.rules)
    processor: Any = pickle.loads(pickle.dumps(again.make))()
    assert processor.plan.rules.wait_ms == 5
    assert processor.dead_letter_errors


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.input("a", OrderPlaced, time="placed_at", bound_ms=5),
        lambda s: s.input("a", OrderPlaced, time="placed_at", format="debezium"),
        lambda s: s.output("a", Closed, key="order_id", timed=True),
        lambda s: s.output("shop-state", Closed, key="order_id"),
    ],
)
def test_what_jobs_cannot_do_yet_is_refused(declare: Callable[[Service[None]], object]) -> None:
    service = Service("shop")
    check_runs(service)
    declare(service)
    with pytest.raises(ServiceError):
        check_runs(service)
