"""`moneystate.query.v1` over a replica of the enrichment's state (`moneystate.serving.face.Face`)."""

from __future__ import annotations

from typing import Any, Final

from moneystate.query.v1 import admin_pb2, query_pb2, watch_pb2
from moneystate.serving.callers import ADMIN, READ
from moneystate.serving.calls import Endpoint
from moneystate.serving.feed import Feed
from moneystate.serving.options import ServeOptions
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.request_log import RequestLog
from moneystate.serving.status_service import StatusService
from moneystate.state.v1 import status_pb2
from services.enrichment.job import NAME
from services.enrichment.replica.replica_model import REPLICA, open_reads
from services.enrichment.serving.admin_service import TOPIC, AdminService
from services.enrichment.serving.entries import Entries
from services.enrichment.serving.query_service import QueryService
from services.enrichment.serving.watch_service import WatchService


class Answers:
    def __init__(self, options: ServeOptions) -> None:
        self.reads = open_reads(options.data)
        self.log = RequestLog(options.bootstrap_servers, options.topic_prefix + TOPIC, options.kafka_config)

    def endpoints(self, tokens: PageTokens, feed: Feed) -> dict[str, Endpoint]:
        reads = self.reads
        reading, watching = QueryService(reads, tokens), WatchService(reads, feed)
        reporting, forgetting = StatusService(reads), AdminService(reads, self.log)
        return {
            "Query.GetUser": Endpoint(READ, reading.get_user),
            "Query.BatchGetUsers": Endpoint(READ, reading.batch_get_users),
            "Query.GetSession": Endpoint(READ, reading.get_session),
            "Query.ListUsers": Endpoint(READ, reading.list_users),
            "Query.ListPending": Endpoint(READ, reading.list_pending),
            "Query.ListEntries": Endpoint(READ, Entries(reads, tokens).list_entries),
            "Query.Explain": Endpoint(READ, reading.explain),
            "Query.DiffUser": Endpoint(READ, reading.diff_user),
            "Query.Diff": Endpoint(READ, reading.diff),
            "Watch.WatchUser": Endpoint(READ, watching.watch_user),
            "Watch.Watch": Endpoint(READ, watching.watch),
            "Status.GetStatus": Endpoint(READ, reporting.get_status),
            "Admin.ForgetUser": Endpoint(ADMIN, forgetting.forget_user),
            "Admin.GetForgotten": Endpoint(ADMIN, forgetting.get_forgotten),
        }

    def close(self) -> None:
        self.log.close()
        self.reads.close()


class QueryFace:
    name = NAME
    services: Final[list[Any]] = [
        file.DESCRIPTOR.services_by_name[name]
        for file, name in ((query_pb2, "Query"), (watch_pb2, "Watch"), (status_pb2, "Status"), (admin_pb2, "Admin"))
    ]
    replica = REPLICA

    def open(self, options: ServeOptions) -> Answers:
        return Answers(options)


QUERY: Final = QueryFace()
