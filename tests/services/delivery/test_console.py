"""The page of delivery in the console, on the router itself."""

from __future__ import annotations

import json
from typing import Any

from moneystate.console.faces import Note, Rows
from moneystate.runtime.plans import plan_of
from services.delivery.cli.commands import ROUTER
from services.delivery.console import NOBODY, UNKNOWN, why
from tests.services.delivery.test_router import Router


def page(router: Router, **given: str) -> Any:
    def ask(query: str, **arguments: Any) -> Any:
        plan = plan_of(ROUTER).queries[query]
        assert not plan.unknown(set(arguments))
        answer = router.bench.ask(router.made.service.queries[query], **plan.parse_arguments(json.dumps(arguments)))
        return json.loads(plan.result.to_json(plan.result_of(answer)))["value"]

    return why(ask, {"topic": "orders", "event": "1", **given})


def test_verdicts_of_an_event_are_shown() -> None:
    router = Router()
    router.subscribe("s")
    router.subscribe("t", types=["other"])
    router.send("1", tenant="t1")
    note, rows = page(router)
    assert isinstance(note, Note)
    assert "orders, partition 0, offset 0" in note.text
    assert "tenant: t1" in note.text
    assert isinstance(rows, Rows)
    assert [(row["subscriptionId"], row["outcome"]) for row in rows.rows] == [("s", "MATCHED")]
    (row,) = page(router, subscription="t")[1].rows
    assert (row["subscriptionId"], row["outcome"], row["deliveryId"]) == ("t", "OTHER_TYPE", "")


def test_what_is_not_there_is_said() -> None:
    router = Router()
    router.send("1")
    assert page(router, event="2") == [Note(UNKNOWN)]
    rows = page(router)[1]
    assert (rows.rows, rows.empty) == ([], NOBODY)
