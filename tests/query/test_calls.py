"""What a call leaves behind, by itself: no server, no socket."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from moneystate.rpc.context import Abort
from moneystate.serving.audit import Audit
from moneystate.serving.callers import READ, Callers
from moneystate.serving.calls import Call, Calls
from moneystate.serving.failures import Failure
from moneystate.serving.limits import Limits, Rooms
from moneystate.serving.metrics import Metrics
from moneystate.state.v1 import state_pb2

Handler = Callable[[Any, Call], state_pb2.GetResponse]


class Caller:
    """A context, as far as a point read looks at it."""

    def __init__(self, remaining_s: float = 10.0) -> None:
        self.remaining_s = remaining_s

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def time_remaining(self) -> float:
        return self.remaining_s


def missing(_: Any, __: Call) -> state_pb2.GetResponse:
    raise Failure("NOT_FOUND", "ann: there is no such record at this version")


def broken(_: Any, __: Call) -> state_pb2.GetResponse:
    raise ValueError("an error of ours")


def found(_: Any, __: Call) -> state_pb2.GetResponse:
    return state_pb2.GetResponse()


def counted(calls: Calls) -> dict[str, float]:
    samples = [s for metric in calls.metrics.calls.collect() for s in metric.samples if s.name.endswith("_total")]
    return {s.labels["code"]: s.value for s in samples}


@pytest.fixture
def calls() -> Calls:
    return Calls(Callers(None, frozenset({READ}), False), Audit(""), Metrics(), Rooms(Limits()))


@pytest.mark.parametrize(
    ("handler", "code", "error"),
    [(found, "OK", None), (missing, "NOT_FOUND", Abort), (broken, "INTERNAL", ValueError)],
)
def test_a_call_is_counted_once_by_its_end(
    calls: Calls, handler: Handler, code: str, error: type[Exception] | None
) -> None:
    """What is no refusal goes on to the transport as it is: that one logs it."""
    point: Any = calls.point("State.Get", READ, handler)
    with pytest.raises(error) if error else contextlib.nullcontext():
        point(state_pb2.GetRequest(), Caller())
    assert counted(calls) == {code: 1.0}


def test_a_call_that_fails_leaves_nothing_to_collect(calls: Calls) -> None:
    point: Any = calls.point("State.Get", READ, missing)
    gc.disable()
    try:
        caller = Caller()
        gone = weakref.ref(caller)
        with contextlib.suppress(Abort):
            point(state_pb2.GetRequest(), caller)
        del caller
        assert gone() is None
    finally:
        gc.enable()


def test_a_call_that_comes_after_its_deadline_is_not_begun_nor_counted_as_answered(calls: Calls) -> None:
    point: Any = calls.point("State.Get", READ, found)
    assert point(state_pb2.GetRequest(), Caller()) == b""
    with pytest.raises(Abort) as caught:
        point(state_pb2.GetRequest(), Caller(-0.1))
    assert caught.value.code.name == "DEADLINE_EXCEEDED"
    assert counted(calls) == {"OK": 1.0, "DEADLINE_EXCEEDED": 1.0}
