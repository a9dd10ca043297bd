"""What a command's metrics endpoint answers."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from moneystate.http import HttpCall, HttpFailure, send_once

DEADLINE_S = 90.0


class Scrape(NamedTuple):
    """A page of metrics."""

    page: str

    def samples(self) -> list[Sample]:
        return [s for family in text_string_to_metric_families(self.page) for s in family.samples]

    def names(self) -> set[str]:
        """Returns the names of samples, and of metrics that have none at the moment."""
        families = list(text_string_to_metric_families(self.page))
        empty = {f.name + ("_total" if f.type == "counter" else "") for f in families}
        return empty | {s.name for f in families for s in f.samples}

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Returns the values by the values of its labels in the order of their names, without the service."""
        own = [s for s in self.samples() if s.name == name]
        return {tuple(v for k, v in sorted(s.labels.items()) if k != "service"): s.value for s in own}

    def value(self, name: str, *labels: str) -> float:
        return self.values(name)[labels]

    def services(self) -> set[str]:
        return {s.labels["service"] for s in self.samples()}


def health(port: int, page: str = "/readyz") -> tuple[int, str]:
    """Status and text of a health page; 0 if nobody listens yet."""
    try:
        reply = send_once(HttpCall(f"http://127.0.0.1:{port}{page}"), DEADLINE_S)
    except HttpFailure:
        return 0, ""
    return reply.status, reply.body.decode().rstrip("\n")


def scraped(port: int) -> Scrape:
    reply = send_once(HttpCall(f"http://127.0.0.1:{port}/metrics"), DEADLINE_S)
    assert reply.status == 200
    return Scrape(reply.body.decode())
