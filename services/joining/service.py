"""Parts of one result from several services, joined by id. docs/joining.md has the rules, under the same numbers."""

from __future__ import annotations

import moneystate as ms
from services.joining.config import Config, check
from services.joining.content import Status, content_of, digest_of_content
from services.joining.queries import declare_queries
from services.joining.records import Cancelled, Joined, KeptPart, KeptRequest, Part, PartsRequested, Result
from services.joining.rules import expected_of, keep, present, status_at


def joining(config: Config) -> ms.Service[Config]:
    service = ms.Service("joining", rules=config)
    check(service, config)
    service.holding(2 * len(config.services) + 2)  # `joined` has each body twice: in its part, and merged
    part = service.input("parts", Part, key="id", time="produced_at", format=config.format)
    requested = service.input("parts", PartsRequested, key="id", time="requested_at", format=config.format)
    cancelled = service.input("parts", Cancelled, key="id", time="cancelled_at", format=config.format)
    joined = service.output("joined", Joined, key="id", compacted=True, format=config.format)
    results = service.value("results", Result)
    waited = service.timer("waited")
    ends = service.timer("ends")
    forgotten = service.timer("forgotten")

    @service.on(part, results)
    def take_part(ctx: ms.Context[Config], e: Part, result: Result) -> None:
        new = KeptPart(e.produced_at, present(e.body), present(e.error))
        if (new.body is None) == (new.error is None):
            raise ms.Reject("body_or_error", "expected a body or an error")
        check_known(ctx, [e.service])
        if is_open(ctx, result):
            result.parts[e.service], repeated = keep(result.parts.get(e.service), new)
            show(ctx, result, repeated)

    @service.on(requested, results)
    def take_request(ctx: ms.Context[Config], e: PartsRequested, result: Result) -> None:
        check_known(ctx, e.services or [])
        if is_open(ctx, result):
            result.request, repeated = keep(result.request, KeptRequest(e.requested_at, e.services, present(e.body)))
            show(ctx, result, repeated)

    @service.on(cancelled, results)
    def cancel(ctx: ms.Context[Config], e: Cancelled, result: Result) -> None:
        """Rule 4."""
        if is_open(ctx, result):
            result.missing = missing_of(ctx, result)
            put(ctx, result, "CANCELLED")
            ctx.cancel(waited)
            ctx.cancel(ends)
            end(ctx, result)

    @service.on(waited, results)
    def show_partial(ctx: ms.Context[Config], result: Result) -> None:
        """Rule 3, at t0 + wait."""
        if result.missing:
            put(ctx, result, "PARTIAL")

    @service.on(ends, results)
    def end(ctx: ms.Context[Config], result: Result) -> None:
        """Rule 4: a mark is all that is kept, with the revision, which says whether the id is in the topic."""
        result.first_at, result.ended_at = None, ctx.now
        result.parts, result.request, result.missing, result.content = {}, None, [], b""
        ctx.at(forgotten, ctx.now + ctx.rules.mark_ms)

    @service.on(forgotten, results)
    def forget(ctx: ms.Context[Config], result: Result) -> None:
        """Rule 4, at the end of the mark."""
        if ctx.rules.tombstones and result.revision > 0:
            ctx.remove(joined, ctx.key)
        result.ended_at, result.revision = None, 0

    declare_queries(service, config, results)

    def check_known(ctx: ms.Context[Config], named: list[str]) -> None:
        """Rule 1."""
        for name in named:
            if name not in ctx.rules.services:
                raise ms.Reject("unknown_service", name)

    def is_open(ctx: ms.Context[Config], result: Result) -> bool:
        """Rules 3 and 4: the first record of an id begins it; after its end, records are counted."""
        if result.ended_at is not None:
            ctx.count("late_parts")
            return False
        if result.first_at is None:
            result.first_at = ctx.now
            if ctx.rules.partial == "emit":
                ctx.at(waited, ctx.now + ctx.rules.wait_ms)
            ctx.at(ends, ctx.now + ctx.rules.retention_ms)
        return True

    def show(ctx: ms.Context[Config], result: Result, repeated: bool) -> None:
        """Rule 3, after each record."""
        if repeated:
            ctx.count("duplicates")
        result.missing = missing_of(ctx, result)
        status = status_at(ctx.now, result, ctx.rules)
        if status is not None:
            put(ctx, result, status)

    def put(ctx: ms.Context[Config], result: Result, status: Status) -> None:
        """Rule 3: a content is put out where it is not the one that was put out last."""
        content = content_of(ctx.key, status, expected_of(result, ctx.rules), result, result.revision + 1)
        digest = digest_of_content(content)
        if digest != result.content:
            result.content = digest
            result.revision += 1
            ctx.emit(joined, content)

    def missing_of(ctx: ms.Context[Config], result: Result) -> list[str]:
        return [name for name in expected_of(result, ctx.rules) if name not in result.parts]

    return service
