"""A thousand sessions are all answered after an outage of the service. The test has the clock of the breaker."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable

import pytest

from moneystate.lookup.breaker import Breaker, Timer
from moneystate.lookup.http_service import HttpService, ServiceConfig
from moneystate.lookup.limiter import Limiter
from moneystate.lookup.metrics import Metrics
from moneystate.lookup.resolver import Policy, Resolver
from moneystate.lookup.wire import Outcome, Request, Wire
from services.enrichment.records import SessionLookupRequested
from tests.http.server import Mode, Server
from tests.lookup.harness import LOOKUP

SESSIONS = 1_000
FOUND = b'{"clientCountryCode": "UY"}'
DOWN_S = 0.05  # the time of a call while the service is away
UP_S = 60.0
POLICY = Policy(attempts=8, timeout_s=DOWN_S, deadline_s=UP_S, backoff_s=0.0001, concurrency=100)


def asking(session: str) -> Request:
    record = SessionLookupRequested("m", "ann", session, 1_000, "LATE")
    return Wire(LOOKUP).request(LOOKUP.request.encode(record))


class Failing(Server):
    """Answers every seventh call for a session with 503."""

    def __init__(self) -> None:
        super().__init__(lambda _path: FOUND)
        self.calls: Counter[str] = Counter()

    def status(self, path: str) -> int:
        self.calls[path] += 1
        return 503 if zlib.crc32(f"{path}/{self.calls[path]}".encode()) % 7 == 0 else 200


def at_once(wait_s: float, then: Callable[[], None]) -> Timer:
    assert wait_s > 0
    return asyncio.get_running_loop().call_soon(then)


async def away(server: Server, mode: Mode | None) -> None:
    """None: nobody listens."""
    if mode is None:
        await server.stop()
    else:
        server.mode = mode


async def back(server: Server, mode: Mode | None) -> None:
    if mode is None:
        await server.start()
    else:
        server.mode = Mode.ANSWERS


@pytest.mark.parametrize("mode", [None, Mode.SILENT, Mode.HALF, Mode.HANGS_UP])
def test_a_thousand_sessions_are_answered_after_an_outage(mode: Mode | None) -> None:
    async def scene() -> None:
        async with Failing() as server:
            service = HttpService(ServiceConfig(server.url), POLICY.concurrency)
            breaker = Breaker(10, later=at_once)
            resolver = Resolver(Wire(LOOKUP), service, breaker, Limiter(None), POLICY, Metrics())
            await resolver.ask(asking("before"))
            await away(server, mode)
            # some are given up on the way, as when a worker loses its partitions
            lost = [resolver.ask(asking(f"lost{n}")) for n in range(SESSIONS)]
            while breaker.failed_probes < 2:
                await asyncio.sleep(0.001)
            resolver.drop_all()
            await asyncio.gather(*lost, return_exceptions=True)
            asked = [resolver.ask(asking(f"s{n}")) for n in range(SESSIONS)]
            while breaker.failed_probes < 4:
                await asyncio.sleep(0.001)
            resolver.policy = Policy(8, UP_S, UP_S, POLICY.backoff_s)  # however busy the machine
            await back(server, mode)
            answers = await asyncio.gather(*asked)
            assert {answer.outcome for answer in answers} == {Outcome.FOUND}
            assert breaker.is_closed
            assert server.open <= POLICY.concurrency
            breaker.close()
            await service.close()

    asyncio.run(asyncio.wait_for(scene(), 2 * UP_S))
