"""No record that a broker takes ends a job: what could not be written again is a dead letter. Only a real broker tells
what it takes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from moneystate.kafka.sizes import message_bytes
from tests.formats.values import JSON
from tests.job.harness import DEAD_LETTERS, ENRICHED, Setup, letters, model_values_by_user, values_by_user
from tests.kafka.logs import Cluster, wait_until_stable
from tests.reference import model
from tests.reference.builder import START_MS

LIMIT = 131_072  # of an event's value; the default
KEPT = 1024  # of an id or code
BROKER_TAKES = 1_048_515  # bytes of a value, by a broker's default
IN_JSON = ("--format", f"{ENRICHED}=json")
IN_JSON_NEEDS = message_bytes(LIMIT + 5 * KEPT, "json")
CONFIG, SETUP = 2, 3
CONTROL = "\x01"  # one byte in Avro, six in JSON


def payment(size: int, **changes: object) -> bytes:
    """A payment whose value has that many bytes; its currency, which goes out with it, takes what is left."""
    fields = {
        "id": "m", "userId": "u", "userSessionId": None, "processedAt": START_MS, "amount": b"\x01", "currency": "",
        "openingBalance": b"\x01", "closingBalance": b"\x01", "moneyType": "CARD", "paymentRelatedThing": "",
        "isOldMoneyEvent": False, **changes,
    }  # fmt: skip
    small = len(model.encode("PaymentEvent", fields))
    value = model.encode("PaymentEvent", fields | {"currency": CONTROL * (size - small)})
    excess = len(value) - size  # a longer length takes more bytes
    return model.encode("PaymentEvent", fields | {"currency": CONTROL * (size - small - excess)})


def records() -> Iterator[tuple[str, bytes | None, list[tuple[str, str | bytes | None]]]]:
    """Topic, value and headers."""
    longest, over = "k" * KEPT, "k" * (KEPT + 1)
    processed = {"processedAt": START_MS}
    user = {"id": "e", "userId": longest, **processed}
    address = {"address": "", "postalCode": ""}
    yield model.USER, model.encode("ChangeAddressEvent", {**user, **address, "residentCountryCode": longest}), []
    yield model.USER, model.encode("ChangeBirthDateEvent", {**user, "birthYear": longest, "birthCityPlace": ""}), []
    yield model.USER, model.encode("ChangeAddressEvent", {**user, **address, "residentCountryCode": over}), []
    yield (
        model.SESSION,
        model.encode("UserSessionCreatedEvent", {**user, "id": longest, "clientCountryCode": longest}),
        [],
    )
    yield model.SESSION, model.encode("UserSessionCreatedEvent", {**user, "id": over, "clientCountryCode": "UY"}), []
    largest = {"userId": longest, "moneyType": longest}
    yield model.WALLET, payment(LIMIT, id=longest, userSessionId=longest, **largest), []  # joined
    yield model.WALLET, payment(LIMIT, id="waits", userSessionId="w" * KEPT, **largest), []
    yield model.WALLET, payment(LIMIT + 1, id="over"), []
    yield model.WALLET, payment(BROKER_TAKES, id="far over"), []
    yield model.WALLET, payment(2_000, id=over), []
    yield model.WALLET, payment(900_000, id="digits", amount=b"\x01" * 500_000), []
    yield model.WALLET, payment(2_000, id="many digits", amount=b"\x01" * KEPT), []
    yield model.WALLET, b"x" * BROKER_TAKES, []
    yield model.WALLET, b"", [("h", b"x" * 1000)] * 900
    yield model.WALLET, None, [("", b"")] * 300_000
    yield model.WALLET, payment(300, id="small"), []
    for topic in model.TIMED_TOPICS:  # the watermark passes them before their session's wait is over
        yield topic, model.encode("Heartbeat", {"processedAt": START_MS + 30_000}), []


def test_no_record_that_a_broker_takes_ends_the_job(setup: Setup) -> None:
    setup.create_inputs(1)
    producer = Cluster(setup.bootstrap_servers, setup.prefix).producer(**{"message.max.bytes": 2_000_000})
    failures: list[str] = []
    for topic, value, headers in records():
        producer.produce(
            setup.prefix + topic, value, partition=0, headers=headers, timestamp=START_MS,
            on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
        )  # fmt: skip
        producer.flush(30)
    assert failures == []
    want = setup.reference(model.Rules(lookup=False), drain=True)
    assert want.dead_letter_counts == {"too_large": 3, "unknown_schema": 2, "null_value": 1}
    done = setup.run("--local", "--until-caught-up", "--drain", "--json", *IN_JSON)
    assert done.totals["dead_letters"] == dict(want.dead_letter_counts)
    written = setup.read(ENRICHED)
    assert max(len(record.value or b"") for record in written) > 6 * 120_000
    assert values_by_user(written) == {
        user: [JSON.from_canonical(value) for value in values] for user, values in model_values_by_user(want).items()
    }
    check_dead_letters(setup, want)


def check_dead_letters(setup: Setup, want: model.Result) -> None:
    """Each one whole, or its coordinates and digest."""
    wait_until_stable(setup.admin(), [setup.prefix + DEAD_LETTERS])
    output = setup.read(DEAD_LETTERS)
    assert letters(output, setup.prefix) == Counter(tuple(letter) for letter in want.dead_letters)
    sent = {(r.topic, r.partition, r.offset): r for r in setup.inputs()[0]}
    whole = 0
    for letter in output:
        about = {name: content or b"" for name, content in letter.headers}
        topic = about["moneystate.topic"].decode().removeprefix(setup.prefix)
        original = sent[topic, int(about["moneystate.partition"]), int(about["moneystate.offset"])]
        digest = about.get("moneystate.value-sha256")
        if digest is None:
            assert letter.value == original.value
            whole += 1
        else:
            assert digest.decode() == hashlib.sha256(original.value or b"").hexdigest()
    assert (whole, len(output)) == (3, 6)


def test_an_output_topic_that_does_not_take_the_largest_record_is_refused(setup: Setup) -> None:
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    cluster.create(ENRICHED, max_message_bytes=str(IN_JSON_NEEDS - 1))
    refused = setup.refused("--until-caught-up", *IN_JSON)
    assert refused.code == SETUP
    assert f"{setup.prefix}{ENRICHED}" in refused.err
    assert setup.topics() == {ENRICHED}
    assert not setup.checkpoint.exists()


def test_a_producer_setting_below_the_largest_record_is_refused(setup: Setup) -> None:
    refused = setup.refused("--until-caught-up", "--kafka-config", "message.max.bytes=100000")
    assert refused.code == CONFIG
    assert setup.topics() == set()
