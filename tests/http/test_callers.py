"""All that calls HTTP, with the same faults: the sender, a call of its own, the lookup worker, the registry."""

from __future__ import annotations

import asyncio
import json

import pytest

from moneystate.http import HttpCall, HttpFailure, HttpSender, send_once
from moneystate.lookup.http_service import Found, HttpService, ServiceConfig
from moneystate.registry.client import ANSWERS, RegistryClient, RegistryUnavailable
from tests.http.contract import MOST, Caller, CallerContract
from tests.http.server import Server


class TestSender(CallerContract):
    is_pooled = True

    def caller(self, server: Server) -> Caller:
        return _Sender(server)


class _Sender(Caller):
    def __init__(self, server: Server) -> None:
        self.server = server
        self.sender = HttpSender(MOST)

    async def call(self, name: str, timeout_s: float) -> str | None:
        try:
            reply = await self.sender.send(HttpCall(f"{self.server.url}/{name}"), timeout_s)
        except HttpFailure:
            return None
        return str(json.loads(reply.body))

    async def close(self) -> None:
        await self.sender.close()


class TestOnce(CallerContract):
    is_pooled = False

    def caller(self, server: Server) -> Caller:
        return _Once(server)


class _Once(Caller):
    """Its thread cannot be cancelled; it ends by itself."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def call(self, name: str, timeout_s: float) -> str | None:
        try:
            reply = await asyncio.to_thread(send_once, HttpCall(f"{self.server.url}/{name}"), timeout_s)
        except HttpFailure:
            return None
        return str(json.loads(reply.body))

    async def close(self) -> None: ...


class TestLookups(CallerContract):
    is_pooled = True

    def caller(self, server: Server) -> Caller:
        return _Lookups(server)


class _Lookups(Caller):
    def __init__(self, server: Server) -> None:
        self.service = HttpService(ServiceConfig(server.url), MOST)

    async def call(self, name: str, timeout_s: float) -> str | None:
        result = await self.service.ask(f"/{name}", timeout_s, lambda _body: "")
        return str(json.loads(result.body)) if isinstance(result, Found) else None

    async def close(self) -> None:
        await self.service.close()


class TestRegistry(CallerContract):
    is_pooled = False

    def body(self, path: str) -> bytes:
        return b'{"schema": %s}' % super().body(path)

    def caller(self, server: Server) -> Caller:
        return _Registry(server)


class _Registry(Caller):
    """Ids are numbers: a name that is none has the number of its letters. Nothing is known from an earlier call."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def call(self, name: str, timeout_s: float) -> str | None:
        client = RegistryClient(self.server.url, attempts=1, timeout_s=timeout_s)
        number = int.from_bytes(name.encode())
        try:
            schema = await asyncio.to_thread(client.schema, number)
        except RegistryUnavailable:
            return None
        finally:
            ANSWERS.clear()
        assert schema is not None
        assert schema.text == str(number)
        return name

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ANSWERS.clear()
