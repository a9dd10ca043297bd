"""`State.Forget` of a service: the request is in the log, and the service that reads it forgets the key. The
broker is real, because it says where the request is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from moneystate.devbroker import DevBroker
from moneystate.rpc.context import Context
from moneystate.serving.calls import Call
from moneystate.serving.failures import Failure
from moneystate.serving.request_log import RequestLog
from moneystate.serving.state.forgetting import StateForgetting
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench
from tests.api.test_forgetting import MINUTE, Count, Letters, Wrote
from tests.kafka.logs import Cluster
from tests.query.in_memory import Served
from tests.reference.kafka_log import read_log


@pytest.fixture
def log(broker: DevBroker, topic_prefix: str) -> Iterator[RequestLog]:
    Cluster(broker.bootstrap_servers, topic_prefix).create("letters", 2)
    requests = RequestLog(broker.bootstrap_servers, topic_prefix + "letters", {})
    yield requests
    requests.close()


def asked(served: Served, log: RequestLog | None, request: s.ForgetRequest) -> tuple[s.ForgetResponse, Call]:
    call = Call(served.caller, cast(Context, SimpleNamespace(time_remaining=lambda: 60.0)))
    return asyncio.run(StateForgetting(served.reader, served.bench.plan, log).forget(request, call)), call


def test_a_request_is_an_event_and_its_proof_is_a_record(broker: DevBroker, topic_prefix: str, log: RequestLog) -> None:
    letters = Letters("json")
    bench = Bench(letters.service)
    bench.send(Wrote("ann", MINUTE))
    with Served(bench) as served:
        answer, call = asked(served, log, s.ForgetRequest(key="ann", request_id="r1"))
        assert (answer.request_id, answer.request.topic) == ("r1", "letters")
        assert (call.touched, call.changed) == (["ann"], True)  # for the audit log
        (record,) = read_log(broker.bootstrap_servers, ["letters"], topic_prefix)[0]
        assert (record.partition, record.offset) == (answer.request.partition, answer.request.offset)
        bench.send_raw("letters", record.value, record.key)
        assert bench.state(letters.count, "ann") == Count()
        served.update()
        name = s.RecordName(key="ann", state="forgotten")
        proof = served.call("State.Get", s.GetRequest(name=name)).records[0].json
        assert '"requestId":"r1"' in proof
        assert '"requestedBy":"someone"' in proof


def test_without_an_id_one_is_generated(log: RequestLog) -> None:
    with Served(Bench(Letters().service)) as served:
        answers = [asked(served, log, s.ForgetRequest(key="ann"))[0] for _ in range(2)]
    assert len({answer.request_id for answer in answers} - {""}) == 2


def test_a_service_without_the_declaration_refuses() -> None:
    from examples.orders import orders

    with Served(Bench(orders.service)) as served, pytest.raises(Failure) as refused:
        asked(served, None, s.ForgetRequest(key="ann"))
    assert refused.value.reason == "MALFORMED"
