"""The calls of `moneystate.state.v1` for one service."""

from __future__ import annotations

from typing import Any

from moneystate.replica.followed_reader import FollowedReader
from moneystate.runtime.reference import service_at
from moneystate.runtime.replica_model import ReplicaModel
from moneystate.serving.callers import ADMIN, READ
from moneystate.serving.calls import Endpoint
from moneystate.serving.feed import Feed
from moneystate.serving.options import ServeOptions
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.request_log import RequestLog
from moneystate.serving.state.calling import QueryRunner
from moneystate.serving.state.contract import Contract
from moneystate.serving.state.forgetting import StateForgetting
from moneystate.serving.state.state_service import StateService
from moneystate.serving.state.watching import StateWatch
from moneystate.serving.status_service import StatusService
from moneystate.state.v1 import state_pb2, status_pb2


class Handlers:
    """The handlers of the calls, in one worker process."""

    def __init__(self, replica: ReplicaModel, options: ServeOptions) -> None:
        self.contract = Contract(replica.plan)
        self.reader = FollowedReader(replica, options.data)
        self.runner = QueryRunner()
        forgetting, extra = replica.plan.forgetting, options.kafka_config
        topic = "" if forgetting is None else options.topic_prefix + forgetting.input.topic
        self.log = RequestLog(options.bootstrap_servers, topic, extra) if topic else None

    def endpoints(self, tokens: PageTokens, feed: Feed) -> dict[str, Endpoint]:
        asked = StateService(self.reader, self.contract, self.runner, tokens)
        return {
            "State.Get": Endpoint(READ, asked.get),
            "State.BatchGet": Endpoint(READ, asked.batch_get),
            "State.List": Endpoint(READ, asked.list_records),
            "State.ListEntries": Endpoint(READ, asked.list_entries),
            "State.ListStored": Endpoint(READ, asked.list_stored),
            "State.Call": Endpoint(READ, asked.call),
            "State.Diff": Endpoint(READ, asked.diff),
            "State.Watch": Endpoint(READ, StateWatch(self.reader, feed).watch),
            "State.Explain": Endpoint(READ, asked.explain),
            "State.Forget": Endpoint(ADMIN, StateForgetting(self.reader, self.contract.plan, self.log).forget),
            "State.GetSchema": Endpoint(READ, asked.get_schema),
            "Status.GetStatus": Endpoint(READ, StatusService(self.reader).get_status),
        }

    def close(self) -> None:
        self.runner.close()
        if self.log is not None:
            self.log.close()
        self.reader.close()


class ServedService:
    """What the query server serves: the service that a reference names. It is pickled into the server's processes."""

    def __init__(self, reference: str) -> None:  # names the service and its rules
        self.replica = ReplicaModel(reference)

    def __reduce__(self) -> tuple[Any, ...]:
        return ServedService, (self.replica.reference,)

    @property
    def name(self) -> str:
        return service_at(self.replica.reference).name

    @property
    def services(self) -> list[Any]:
        return [
            state_pb2.DESCRIPTOR.services_by_name["State"],
            status_pb2.DESCRIPTOR.services_by_name["Status"],
        ]

    def open(self, options: ServeOptions) -> Handlers:
        return Handlers(self.replica, options)
