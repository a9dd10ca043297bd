"""Events to everyone who subscribed to them: events, endpoints, subscriptions -> deliveries (docs/delivery.md)."""

from __future__ import annotations

from functools import reduce
from operator import or_

import moneystate as ms
from services.delivery import records as r
from services.delivery.config import Config, Events, check
from services.delivery.deliveries import Deliveries
from services.delivery.events import event_decoder
from services.delivery.matching import candidates, filter_of, filtered_body, index_texts
from services.delivery.queries import declare_queries
from services.delivery.rows import decode_subscription, endpoint_decoder
from services.delivery.verdicts import failed_endpoint

ANY = [Events("any")]


def delivery(config: Config) -> ms.Service[Config]:
    return DeliveryService(config).service


class DeliveryService:
    """The declarations, and what runs on them."""

    def __init__(self, config: Config) -> None:
        self.service = service = ms.Service("delivery", rules=config)
        check(service, config)
        history_ms = config.why_retention_ms
        self.endpoints = service.table(
            "endpoints", r.Endpoint, decode=endpoint_decoder(config.allow_http), history_ms=history_ms
        )
        self.subscriptions = service.table(
            "subscriptions", r.Subscription, decode=decode_subscription, history_ms=history_ms
        )
        self.by_match = service.index("by_match", of=self.subscriptions, by=index_texts)
        self.routed = service.map("routed", r.Routed, ttl_ms=lambda rules: rules.why_retention_ms)
        self.deliveries = service.output(
            "deliveries", r.Delivery, key="endpoint_id", partitions=config.delivery_partitions
        )
        declared = config.inputs() or ANY  # without a configuration, its records can be released
        self.events = reduce(or_, [self._input(events, number) for number, events in enumerate(declared)])
        service.on(self.events, self.subscriptions, self.endpoints, self.routed.at(routed_ids))(self.route)
        service.on(self.endpoints.changed)(self.endpoint_changed)
        service.on(self.subscriptions.changed)(self.subscription_changed)
        declare_queries(service, self.routed, self.subscriptions, self.endpoints, self.by_match)

    def _input(self, events: Events, number: int) -> ms.Source[r.Event]:
        return self.service.input(
            events.topic, r.Event, key="key", time=ms.arrival, format="json", decode=event_decoder(events, number),
            unique="identity", within_ms=lambda rules: rules.duplicate_retention_ms,
        )  # fmt: skip

    def route(
        self, ctx: ms.Context[Config], e: r.Event, subscriptions: ms.Table[r.Subscription],
        endpoints: ms.Table[r.Endpoint], routed: ms.Entries[r.Routed],
    ) -> None:  # fmt: skip
        matching = candidates(subscriptions, self.by_match, e.type, e.tenant, e.department)
        has_filter = any(row.filter is not None for _, row in matching)
        if ctx.rules.why_retention_ms:
            routed.put(routed_id(e), routed_of(e, ctx.now, has_filter))
        body = filtered_body(e.body) if has_filter else {}
        made = Deliveries(e, ctx.now)
        for id, row in matching:
            if row.filter is not None and not filter_of(row.filter.text).matches(body):
                continue
            endpoint = endpoints.get(row.endpoint_id)
            if endpoint is not None and not failed_endpoint(row, endpoint):
                ctx.emit(self.deliveries, made.to(id, row, endpoint))
        ctx.count("deliveries", made.count)
        if not made.count:
            ctx.count("unmatched")

    def endpoint_changed(self, ctx: ms.Context[Config], row: r.Endpoint | None) -> None:
        if row is not None and row.problem:
            ctx.count("invalid_endpoints")

    def subscription_changed(self, ctx: ms.Context[Config], row: r.Subscription | None) -> None:
        if row is not None and row.problem:
            ctx.count("invalid_subscriptions")


def routed_ids(e: r.Event) -> list[str]:
    return [routed_id(e)]


def routed_id(e: r.Event) -> str:
    """Its place, which no other event has."""
    return f"{e.topic}/{e.partition}/{e.offset}"


def routed_of(e: r.Event, now_ms: int, keeps_body: bool) -> r.Routed:
    body = e.body if keeps_body else None
    return r.Routed(
        e.topic, e.partition, e.offset, e.id, e.source, e.type, e.tenant, e.department, now_ms, body
    )  # fmt: skip
