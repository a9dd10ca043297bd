"""The enrichment as a plain service, on a log in memory: the reference's records, after kills and in a replay."""

from __future__ import annotations

from collections import Counter

from tests.job.harness import ENRICHED, letters, model_values_by_user, small_workload, values_by_user
from tests.local.in_memory import InMemory
from tests.reference.model import Rules

SERVICE = "services.enrichment.service:service"
LETTERS = "money-enrichment-dead-letters"
RULES = Rules(lookup=False, session_ttl_ms=600_000, dedup_ttl_ms=20_000, session_wait_ms=30_000)
FLAGS = ("--session-ttl", "10m", "--dedup-ttl", "20s", "--session-wait", "30s", "--until-caught-up", "--drain")


class PlainService(InMemory):
    """Runs the plain service in place of `enrich`."""

    def arguments(self, *more: str) -> list[str]:
        return ["run", SERVICE, *super().arguments(*more)[1:]]


def test_a_kill_and_small_batches_give_the_references_records(in_memory: InMemory) -> None:
    setup = PlainService(*in_memory)
    setup.create_inputs()
    setup.send(small_workload("--events", "1200", "--flush-marker"))
    flags = (*FLAGS, "--max-records-per-batch", "300", "--quiet")
    setup.kill_at("marked@1", *flags)
    setup.run(*flags)
    want = setup.reference(RULES, drain=True)
    assert values_by_user(setup.read(ENRICHED)) == model_values_by_user(want)
    mine = letters(setup.read(LETTERS), setup.prefix)
    assert mine == Counter(tuple(letter) for letter in want.dead_letters)
    assert mine == Counter(mine.keys()), "a dead letter was written twice"
    verified = setup.command("verify-replay", "--checkpoint", setup.checkpoint, "--service", SERVICE, "--json")
    assert verified.totals["agrees"]
