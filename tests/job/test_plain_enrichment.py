"""The enrichment as a plain service, on a real broker, without Spark: the reference's records, after kills and in a
replay on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from moneystate.devbroker import DevBroker
from tests.api.test_plain_enrichment import reasons
from tests.job.harness import ENRICHED, Setup, letters, model_values_by_user, moneystate, small_workload, values_by_user
from tests.kafka.logs import wait_until_stable
from tests.reference.model import Rules

SERVICE = "examples.enrichment.enrichment:service"
LETTERS = "money-dead-letters"
RULES = Rules(lookup=False, session_ttl_ms=600_000, dedup_ttl_ms=20_000, session_wait_ms=30_000)
FLAGS = ("--session-ttl", "10m", "--dedup-ttl", "20s", "--session-wait", "30s", "--until-caught-up", "--drain")


class PlainSetup(Setup):
    """Runs the plain service in place of `enrich`."""

    def arguments(self, *more: str) -> list[str]:
        return ["run", "--local", SERVICE, *super().arguments(*more)[1:]]


def test_a_kill_and_small_batches_give_the_references_records(
    broker: DevBroker, topic_prefix: str, tmp_path: Path
) -> None:
    setup = PlainSetup(broker.bootstrap_servers, topic_prefix, tmp_path)
    setup.create_inputs()
    setup.send(small_workload("--events", "1200", "--flush-marker"))
    flags = (*FLAGS, "--max-records-per-batch", "300", "--quiet")
    setup.kill_at("marked@1", *flags)
    setup.run(*flags)
    want = setup.reference(RULES, drain=True)
    wait_until_stable(setup.admin(), [setup.prefix + topic for topic in (ENRICHED, LETTERS)])
    assert values_by_user(setup.read(ENRICHED)) == model_values_by_user(want)
    mine = letters(setup.read(LETTERS), setup.prefix)
    assert reasons(mine.elements()) == reasons(want.dead_letters)
    assert mine == Counter(mine.keys()), "a dead letter was written twice"
    verify = ["verify-replay", "--checkpoint", str(setup.checkpoint), "--service", SERVICE]
    moneystate([*verify, "--bootstrap-servers", broker.bootstrap_servers], tmp_path)
