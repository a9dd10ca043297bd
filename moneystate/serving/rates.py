"""Limits how many units a caller may ask for in a second: records that it sends, or pages that it loads.

Each caller has a bucket that holds the units of one second. A request is let in while the bucket is not empty, and may
leave it in debt. So a request larger than the bucket is not refused for ever, and the rate holds over time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

CALLERS: Final = 100_000  # whose buckets are kept; a bucket that was dropped is full again


class _Bucket:
    __slots__ = ("at_s", "level")

    def __init__(self, level: float, at_s: float) -> None:
        self.level = level
        self.at_s = at_s


class Rates:
    """The buckets of all callers. Time is an argument, in seconds."""

    def __init__(self, rate: float) -> None:
        self.rate = rate  # units a second of a caller without a limit of its own; 0: no limit
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str, own_rate: float | None, units: int, now_s: float) -> float:
        """0 if the request is let in, else the seconds until it would be."""
        rate = self.rate if own_rate is None else own_rate
        if not rate:
            return 0.0
        bucket = self._bucket(caller, rate, now_s)
        most = max(rate, 1.0)
        bucket.level = min(most, bucket.level + (now_s - bucket.at_s) * rate)
        bucket.at_s = now_s
        if bucket.level < 1:
            return (1 - bucket.level) / rate
        bucket.level -= units
        return 0.0

    def _bucket(self, caller: str, rate: float, now_s: float) -> _Bucket:
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = _Bucket(max(rate, 1.0), now_s)
            if len(self._buckets) > CALLERS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(caller)
        return bucket
