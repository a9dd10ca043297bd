"""The metrics endpoints of jobs, and the alerts of a Prometheus server, asked again and again."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from moneystate.console.alert_forms import Labels
from moneystate.console.alerts import Alert, Alerts, most_severe_first
from moneystate.console.figures import Figures, Page, figures_of, page_of
from moneystate.engine.avro import Malformed
from moneystate.http import HttpCall, HttpFailure, HttpReply, HttpSender, ServiceUrl
from moneystate.records.iso_time import to_ms

TIMEOUT_S: Final = 3.0
CONNECTIONS: Final = 20
MOST_BYTES: Final = 4 * 1024 * 1024
OWN: Final = "Moneystate"  # how the names of this project's rules begin (ops/alerts.yml)


class Unanswered(Exception):
    """An endpoint did not say what it was asked; the message says why."""


class Endpoints:
    """`given`: HOST:PORT of `--metrics-port`. `figures`: of jobs by service, as of the last look. `problems`: why
    an endpoint has none, by its address. `alerts`: of Prometheus if it answers, else of the console's own rules."""

    def __init__(self, given: Sequence[str], prometheus: ServiceUrl | None) -> None:
        self.given = given
        self.addresses = tuple(given)  # and those that announce themselves
        self.prometheus = prometheus
        self.sender = HttpSender(CONNECTIONS)
        self.pages: dict[str, Page] = {}
        self.figures: dict[str, Figures] = {}
        self.problems: dict[str, str] = {}
        self.own = Alerts()
        self.alerts: list[Alert] = []

    def announced(self, addresses: Sequence[str]) -> None:
        """Reads these, too, from now on."""
        self.addresses = tuple(dict.fromkeys([*self.given, *addresses]))

    async def look(self) -> None:
        problems: dict[str, str] = {}
        addresses = self.addresses
        pages = dict(zip(addresses, await asyncio.gather(*map(self._page, addresses)), strict=True))
        self.pages = {address: page for address, page in self.pages.items() if address in pages}
        figures: dict[str, Figures] = {}
        for address, page in pages.items():
            if isinstance(page, Page):
                figures |= {one.service: one for one in figures_of(address, self.pages.get(address), page)}
                self.pages[address] = page
            else:
                problems[address] = page
        alerts = self.own.look(time.monotonic(), time.time_ns() // 1_000_000, list(_samples(pages)))
        if self.prometheus is not None:
            try:
                alerts = alerts_of(await self._asked(*_alerts_call(self.prometheus)))
            except Unanswered as e:
                problems[self.prometheus.url] = str(e)
        self.figures, self.problems, self.alerts = figures, problems, alerts

    async def close(self) -> None:
        await self.sender.close()

    async def _page(self, address: str) -> Page | str:
        """The page, or why there is none."""
        try:
            text = await self._asked(f"http://{address}/metrics", {})
            return await asyncio.to_thread(page_of, text, time.monotonic())
        except Unanswered as e:
            return str(e)
        except ValueError:
            return "expected Prometheus metrics, found something else."

    async def _asked(self, url: str, headers: Mapping[str, str]) -> str:
        """Raises Unanswered."""
        try:
            reply: HttpReply = await self.sender.send(
                HttpCall(url, headers=headers, max_reply_bytes=MOST_BYTES), TIMEOUT_S
            )
        except HttpFailure as e:
            raise Unanswered(f"expected an answer, but {e.reason}.") from None
        if reply.status != 200 or reply.is_cut:
            raise Unanswered(f"expected status 200, found {reply.status}.")
        return reply.body.decode(errors="replace")


def _alerts_call(prometheus: ServiceUrl) -> tuple[str, Mapping[str, str]]:
    return prometheus.url.rstrip("/") + "/api/v1/alerts", prometheus.headers


def _samples(pages: Mapping[str, Page | str]) -> Iterator[tuple[str, Labels, float]]:
    """Yields the samples of all endpoints, as Prometheus labels them."""
    for address, page in pages.items():
        instance = ("instance", address)
        yield "up", (instance,), float(isinstance(page, Page))
        if isinstance(page, Page):
            for (name, labels), value in page.samples.items():
                yield name, (*labels, instance), value


def alerts_of(text: str) -> list[Alert]:
    """This project's alerts that fire, the most severe first, of an answer of `/api/v1/alerts`. Raises Unanswered."""
    try:
        given = json.loads(text)["data"]["alerts"]
        firing = [_alert(one) for one in given if one["state"] == "firing"]
    except (ValueError, KeyError, TypeError):
        raise Unanswered("expected the alerts of Prometheus, found something else.") from None
    return most_severe_first(one for one in firing if one.name.startswith(OWN))


def _alert(given: dict[str, dict[str, str]]) -> Alert:
    labels, notes = given["labels"], given["annotations"]
    try:
        since_ms = to_ms(str(given.get("activeAt", ""))[:19] + "Z")
    except Malformed:
        since_ms = None
    return Alert(
        labels["alertname"], labels.get("severity", ""), labels.get("service", ""), notes.get("summary", ""),
        notes.get("runbook", ""), since_ms,
    )  # fmt: skip
