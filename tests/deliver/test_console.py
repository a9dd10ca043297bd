"""The pages of endpoints in the console, from what a worker has written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from moneystate.console.faces import Note, Rows
from moneystate.console.page_faces import records_of
from moneystate.console.topics import Topics
from moneystate.devbroker import DevBroker
from services.delivery.console import endpoint, endpoints
from tests.deliver.workers import WITHIN_S, Site
from tests.kafka.logs import Cluster
from tests.waiting import until


def test_endpoints_are_shown_with_what_is_pending_their_breakers_and_attempts(
    broker: DevBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with Site(Cluster(broker.bootstrap_servers, topic_prefix), tmp_path) as site:
        site.endpoint("good", "/ok")
        site.endpoint("paused", "/ok", paused=True)
        site.endpoint("gone", "/status/410")
        for name in ("good", "paused", "gone"):
            site.subscription(f"to-{name}", name)
        worker = site.worker()
        site.send("to-good", "good", 2)
        site.send("to-paused", "paused", 3)
        site.send("to-gone", "gone", 1)
        records = partial(records_of, Topics(broker.bootstrap_servers, {}, topic_prefix))

        def rows() -> dict[str, Any]:
            [table] = endpoints(records, {})
            assert isinstance(table, Rows)
            return {row["endpoint"]: row for row in table.rows}

        def is_written() -> bool:
            return len(site.outcomes()) == 2 and rows().keys() == {"gone", "paused"}

        until(is_written, worker.err, WITHIN_S)
        shown = rows()
        assert (shown["paused"]["pending"], shown["paused"]["breaker"]) == (3, "CLOSED")
        assert shown["paused"]["oldest pending"]
        assert (shown["gone"]["pending"], shown["gone"]["breaker"], shown["gone"]["because"]) == (1, "DISABLED", "410")
        note, lines = endpoint(records, {"endpoint": "good"})
        assert isinstance(note, Note)
        assert isinstance(lines, Rows)
        assert [row["event"].split(",")[0] for row in lines.rows].count("attempt 1: 200") == 2
        assert [row["event"] for row in lines.rows].count("DELIVERED after 1 attempts") == 2
        assert worker.stop().code == 0
