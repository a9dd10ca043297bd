"""What a dispatcher has decided, as records of the workers' topics."""

from __future__ import annotations

from moneystate.deliver import history, pending, statuses
from moneystate.deliver.dispatcher import Changes
from moneystate.kafka.group_transactions import Written


def records_of(changes: Changes, prefix: str, partition: int, now_ms: int) -> list[Written]:
    """`prefix`: of all topics; `partition`: the one of `deliveries` that the changes are of, and of each record."""

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
    ]
