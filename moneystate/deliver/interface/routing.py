"""What all requests have in common: the caller, the audit log, and how a refusal is answered."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from prometheus_client import Counter
from starlette.exceptions import HTTPException

from moneystate.deliver.interface.audit import Audit
from moneystate.deliver.interface.callers import Caller, Callers
from moneystate.deliver.interface.commands import Commands
from moneystate.deliver.interface.keys import Keys
from moneystate.deliver.interface.owned import Owned
from moneystate.deliver.interface.pages import Pages
from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.interface.rights import READ, WRITE, Rights
from moneystate.deliver.records import DeliveryReader
from moneystate.serving.http_security import machine_of
from moneystate.serving.rates import Rates

MOST_BODY_BYTES: Final = 1 << 20
GET: Final = "GET"
CONTENT: Final = frozenset({"undelivered", "messages"})  # reads of customers' events
Message = MutableMapping[str, Any]


@dataclass(frozen=True)
class Parts:
    """Holds what requests use."""

    owned: Owned
    keys: Keys
    pages: Pages
    commands: Commands
    reader: DeliveryReader
    callers: Callers
    audit: Audit
    rates: Rates
    requests: Counter
    now_ms: Callable[[], int]


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def _identified(request: Request, scope: str) -> Caller:
    """Raises Refused."""
    parts = parts_of(request)
    caller = request.state.caller = parts.callers.caller(request.scope)
    wait_s = parts.rates.take(caller.identity, None, 1, time.monotonic())
    if wait_s:
        raise Refused("TOO_FAST", "expected fewer requests a second of this caller.", retry_s=wait_s)
    caller.rights.require(scope)
    return caller


async def _reader(request: Request) -> Rights:
    return _identified(request, READ).rights


async def _writer(request: Request) -> Caller:
    return _identified(request, WRITE)


Using = Annotated[Parts, Depends(parts_of)]
Reader = Annotated[Rights, Depends(_reader)]
Writer = Annotated[Caller, Depends(_writer)]


class AuditedRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                response: Response = await handler(request)
            except Refused as e:
                return self._refused(request, e)
            except HTTPException as e:  # of a body that cannot be read
                return self._refused(request, _reason(e))
            except RequestValidationError as e:
                return self._refused(request, Refused("INVALID_REQUEST", f"expected {_first_problem(e)}."))
            self._done(request, response.status_code)
            return response

        return handle

    def _done(self, request: Request, status: int) -> None:
        parts_of(request).requests.labels(self.name, str(status)).inc()
        if request.method != GET or self.path.rpartition("/")[2] in CONTENT:
            who: Caller = request.state.caller
            parts_of(request).audit.done(who.subject, who.machine, self.name, **request.path_params)

    def _refused(self, request: Request, refused: Refused) -> Response:
        who: Caller | None = getattr(request.state, "caller", None)
        parts_of(request).requests.labels(self.name, refused.code).inc()
        parts_of(request).audit.refused(
            "" if who is None else who.subject,
            machine_of(request.scope),
            self.name,
            refused.code,
            **request.path_params,
        )
        return answer_of(refused)


def answer_of(refused: Refused) -> Response:
    headers = {"Retry-After": str(math.ceil(refused.retry_s))} if refused.retry_s else {}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(refused.plain(), refused.status, headers)


def _reason(e: HTTPException) -> Refused:
    if isinstance(e.__cause__, Refused):
        return e.__cause__
    return Refused("INVALID_REQUEST", "expected a body that is JSON.")


def _first_problem(e: RequestValidationError) -> str:
    """Without the value, which may be a secret."""
    first = e.errors()[0]
    return f"another value of {'.'.join(map(str, first['loc']))}: {first['msg']}"


class Limited:
    """An ASGI application whose requests have bodies of at most `MOST_BODY_BYTES`."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        left = MOST_BODY_BYTES

        async def limited() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise Refused("BODY_TOO_LARGE", f"expected a body of at most {MOST_BODY_BYTES:,} bytes.")
            return message

        await self._app(scope, limited if scope["type"] == "http" else receive, send)
