"""What a dispatcher has decided, as records of the workers' topics."""

from __future__ import annotations

from moneystate.deliver import history, pending, status_events, statuses
from moneystate.deliver.dispatcher import Changes
from moneystate.deliver.status_events import StatusEvent
from moneystate.kafka.group_transactions import Written


def records_of(changes: Changes, prefix: str, partition: int, now_ms: int) -> list[Written]:
    """`prefix`: of all topics; `partition`: the one of `deliveries` that the changes are of, and of each record but
    events."""

    def written(topic: str, key: str, value: bytes | None) -> Written:
        return Written(prefix + topic, key.encode(), value, partition)

    return [
        *(written(history.LOG, one.endpoint_id, history.to_json(one)) for one in changes.log),
        *(written(pending.PENDING, key, value) for key, value in changes.pending.items()),
        *(written(history.UNDELIVERED, one.delivery.endpoint_id, history.to_json(one)) for one in changes.undelivered),
        *(
            written(statuses.STATUSES, endpoint_id, statuses.to_json(endpoint_id, breaker, now_ms))
            for endpoint_id, breaker in changes.statuses.items()
        ),
        *(_event(prefix, one) for one in changes.events),
    ]


def _event(prefix: str, one: StatusEvent) -> Written:
    """Its topic has a number of partitions of its own."""
    value, headers = status_events.to_json(one), status_events.headers_of(one)
    return Written(prefix + status_events.EVENTS, one.endpoint_id.encode(), value, None, headers)
