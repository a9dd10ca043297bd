"""Other inputs than plain Avro events: topics in JSON, and the replies of lookups."""

from __future__ import annotations

import pytest

from moneystate.engine.processor import Rejected
from tests.formats.registry_server import RegistryServer
from tests.formats.values import BY_NAME, JSON, SET, framed, payment
from tests.job.harness import model_values_by_user, small_workload, values_by_user
from tests.local.in_memory import InMemory
from tests.reference import model
from tests.reference.codec import decode, encode

ENRICHED, REQUESTS, RESULTS = "money-enriched-events", "session-lookup-requests", "session-lookup-results"
DRAIN = ("--until-caught-up", "--drain", "--json")
IN_JSON = ("--format", f"{model.WALLET}=json", "--format", f"{ENRICHED}=json")


def reply_to(request: model.LogRecord, offset: int) -> model.LogRecord:
    """Every third session is found, every third is not, and the service fails for the rest."""
    assert request.value is not None
    _, asked = decode(request.value)
    outcome = ("FOUND", "NOT_FOUND", "FAILED")[offset % 3]
    country = "UY" if outcome == "FOUND" else None
    answer = {name: asked[name] for name in ("moneyId", "userId", "userSessionId", "requestedAt")}
    answer |= {"outcome": outcome, "clientCountryCode": country, "attempts": 1, "completedAt": 0}
    return model.LogRecord(RESULTS, 0, offset, None, request.key, encode("SessionLookupCompleted", answer))


def in_json(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    try:
        SET.open(value)
    except Rejected:
        return value  # garbage is garbage in JSON, too
    return JSON.from_canonical(value)


def test_topics_in_json_give_the_same_records(in_memory: InMemory) -> None:
    setup = in_memory
    records = small_workload("--events", "1000", "--garbage", "0.01")
    want = model.run(records, {(r.topic, r.partition) for r in records}, model.Rules(lookup=False), drain=True)
    setup.create_inputs(1 + max(r.partition for r in records))
    setup.send([_with(r, in_json(r.value)) if r.topic == model.WALLET else r for r in records])
    done = setup.run(*DRAIN, *IN_JSON)
    got = [_with(r, JSON.to_canonical(r.value or b"")) for r in setup.read(ENRICHED)]
    assert values_by_user(got) == model_values_by_user(want)
    assert sum(done.totals["dead_letters"].values()) == len(want.dead_letters)


def test_an_id_that_the_registry_learns_of_late_is_an_event_and_no_dead_letter(
    in_memory: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = in_memory
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    setup.create_inputs(1)
    setup.send([model.LogRecord(model.WALLET, 0, 0, None, b"u-1", framed(1000, payment(SET)[10:]))])
    with RegistryServer() as registry:
        flags = (*DRAIN, "--format", f"{model.WALLET}=confluent", "--schema-registry", registry.url)
        with setup.running(*flags) as job:
            job.wait_for(lambda: len(registry.state.requests) > 1, "the second question for the id")
            assert registry.add(BY_NAME["PaymentEvent"].source) == 1000
            done = job.finish()
    assert (done.code, done.totals["dead_letters"], done.totals["outputs"]) == (0, {}, 1), done.err


def test_lookups_are_asked_for_and_their_replies_put_the_money_out(in_memory: InMemory) -> None:
    setup = in_memory
    setup.create_inputs()
    setup.send(small_workload("--events", "1500", "--late", "0.02", "--unknown-sessions", "0.05"))
    setup.run("--until-caught-up", "--session-lookup", "topic")
    asked = setup.read(REQUESTS)
    assert asked
    setup.send([reply_to(request, n) for n, request in enumerate(asked)])
    drain = (*DRAIN, "--session-lookup", "topic", "--lookup-deadline")
    done = setup.run(*drain, "0s")
    left = setup.check_lookups()
    assert done.totals["looking_up"] == left > 0
    assert f"{left} lookups are open" in done.err

    # What the drain asked for is answered: the drained checkpoint goes on with the replies, and with nothing else.
    assert setup.refused("--session-lookup", "topic").code == 4
    answered = {(request.partition, request.offset) for request in asked}
    with setup.running(*drain, "60s") as job:
        rest = [r for r in setup.read(REQUESTS) if (r.partition, r.offset) not in answered]
        setup.send([reply_to(request, n) for n, request in enumerate(rest)])
        done = job.finish()
    assert (done.code, done.totals["looking_up"], setup.check_lookups()) == (0, 0, 0)
    assert "lookups are open" not in done.err
    assert setup.refused(*drain, "60s").code == 4


def _with(record: model.LogRecord, value: bytes | None) -> model.LogRecord:
    return model.LogRecord(
        record.topic, record.partition, record.offset, record.timestamp_ms, record.key, value, record.headers
    )
