"""What a worker has at the moment, for its metrics."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from moneystate.deliver.breaker import Status
from moneystate.deliver.connections import Connections
from moneystate.deliver.metrics import WORST, Standing
from moneystate.deliver.partition import Partition


def standing_of(partitions: Iterable[Partition], requests: int, connections: Connections, now_ms: int) -> Standing:
    """Another thread than that of the worker may call it."""
    owned = list(partitions)
    queues = [queue for own in owned for queue in list(own.dispatcher.endpoints.values())]
    waiting = [routed_ms for own in owned for _, routed_ms, _ in list(own.held)[:1]]
    worst = heapq.nlargest(WORST, ((queue.endpoint_id, queue.count) for queue in queues), key=lambda its: its[1])
    return Standing(
        partitions=len(owned),
        pending=sum(queue.count for queue in queues),
        in_flight=requests,
        stopped=sum(queue.breaker.status is not Status.CLOSED for queue in queues),
        connections=connections.held,
        is_scarce=connections.is_scarce,
        behind_s=max(0.0, (now_ms - min(waiting)) / 1_000) if waiting else 0.0,
        worst=[its for its in worst if its[1]],
    )
