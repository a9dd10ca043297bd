"""Job, worker and service together: an outage, and a replay."""

from __future__ import annotations

from moneystate.devbroker import DevBroker
from services.enrichment.fake_service import FakeSessionService, Knowledge
from tests.job.harness import ENRICHED, LOOKUP_RESULTS, Setup, small_workload
from tests.log_lines import impersonal
from tests.lookup.harness import REQUESTS, Lookups
from tests.reference import model

FLAGS = ("--local", "--until-caught-up", "--drain", "--session-lookup", "topic", "--lookup-deadline", "100s", "--json")


def test_an_outage_holds_back_only_what_waits_for_it_and_a_replay_does_not_ask_again(
    broker: DevBroker, topic_prefix: str, setup: Setup, lookups: Lookups
) -> None:
    assert (setup.prefix, lookups.cluster.prefix) == (topic_prefix, topic_prefix)
    log = small_workload("--events", "1200", "--late", "0.02", "--unknown-sessions", "0.05", "--flush-marker")
    setup.create_inputs()
    lookups.cluster.create(ENRICHED, setup.partitions)
    setup.send(log)
    records, partitions = setup.inputs()
    others = model.run(records, partitions, model.Rules(), drain=True)  # without any reply
    assert others.looking_up > 20
    service = FakeSessionService(Knowledge(1, not_found_rate=0.2, error_rate=0.1))
    with service:
        pass  # it keeps its port from here on
    patient = ("--breaker-threshold", "3", "--call-timeout", "10s", "--attempts", "10")
    with lookups.process(service, *patient) as worker, setup.start(*FLAGS) as job:
        job.wait_for(lambda: len(setup.enriched()) == len(others.enriched), "all other money")
        job.wait_for(lambda: '"state": "open"' in worker.err(), "breaker open")
        assert lookups.visible() == 0
        with service:
            done = job.finish()
            assert (done.code, done.totals["looking_up"]) == (0, 0), done.err
            assert setup.check_lookups() == 0
            assert {reply.outcome for reply in lookups.replies()} == {"FOUND", "NOT_FOUND"}

            service.behaviour = Knowledge(2)
            asked = sum(service.calls.values())
            folder = setup.folder / "replay"
            folder.mkdir()
            again = setup._replace(folder=folder).run(*FLAGS, "--application-id", f"{topic_prefix}again")
            assert again.totals["looking_up"] == 0
            worker.wait_for(lambda: not any(lookups.lag(f"{topic_prefix}session-lookup-worker").values()), "offsets")
            assert sum(service.calls.values()) == asked
    impersonal(worker.err(), log)
    assert setup.check_lookups(copies=2) == 0
    assert len(setup.read(REQUESTS)) == 2 * len(setup.read(LOOKUP_RESULTS))
