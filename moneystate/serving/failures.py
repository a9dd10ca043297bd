"""The errors of calls: the one table of status codes and reasons (proto/moneystate/state/v1/state.proto).

A failure is sent as a google.rpc.Status in the trailing metadata: an ErrorInfo with the reason, and if it helps, a
BadRequest with the field or a RetryInfo.
"""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status.rpc_status import GRPC_DETAILS_METADATA_KEY

from moneystate.replica import model

DOMAIN: Final = "moneystate"
RETRY_S: Final = 1.0  # a loading replica reports its progress about as often

CODES: Final[dict[str, grpc.StatusCode]] = {
    "MALFORMED": grpc.StatusCode.INVALID_ARGUMENT,
    "BAD_PAGE_TOKEN": grpc.StatusCode.INVALID_ARGUMENT,
    "NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "PRUNED": grpc.StatusCode.OUT_OF_RANGE,
    "FUTURE": grpc.StatusCode.OUT_OF_RANGE,
    "NOT_CAUGHT_UP": grpc.StatusCode.UNAVAILABLE,
    "DRAINING": grpc.StatusCode.UNAVAILABLE,
    "LOG_UNAVAILABLE": grpc.StatusCode.UNAVAILABLE,
    "NO_TOKEN": grpc.StatusCode.UNAUTHENTICATED,
    "BAD_TOKEN": grpc.StatusCode.UNAUTHENTICATED,
    "SCOPE_MISSING": grpc.StatusCode.PERMISSION_DENIED,
    "UNREADABLE": grpc.StatusCode.DATA_LOSS,
    "TOO_BIG": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "TOO_MANY_STREAMS": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "TOO_MANY_CALLS": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "DEADLINE": grpc.StatusCode.DEADLINE_EXCEEDED,
}


class Failure(Exception):
    """Ends a call with an error."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        field: str = "",
        retry_s: float = 0.0,
        metadata: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason  # a key of CODES
        self.message = message
        self.field = field  # the wrong field of the request
        self.retry_s = retry_s  # when to try again
        self.metadata = metadata or {}  # for machines

    @property
    def code(self) -> grpc.StatusCode:
        return CODES[self.reason]

    def trailers(self) -> tuple[tuple[str, bytes]]:
        details: list[Message] = [ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.metadata)]
        if self.field:
            violation = BadRequest.FieldViolation(field=self.field, description=self.message)
            details.append(BadRequest(field_violations=[violation]))
        if self.retry_s:
            retry = RetryInfo()
            retry.retry_delay.FromMilliseconds(round(self.retry_s * 1000))
            details.append(retry)
        status = Status(code=self.code.value[0], message=self.message)
        for detail in details:
            packed = Any()
            packed.Pack(detail)
            status.details.append(packed)
        return ((GRPC_DETAILS_METADATA_KEY, status.SerializeToString()),)


def malformed(field: str, message: str) -> Failure:
    return Failure("MALFORMED", f"{field}: {message}", field=field)


def of_store(error: model.ReplicaError) -> Failure:
    """Converts an error of the replica into a failure of the call."""
    match error:
        case model.Malformed():
            return Failure("MALFORMED", str(error))
        case model.Pruned():
            oldest, newest = str(error.oldest), str(error.newest)
            return Failure(
                "PRUNED",
                f"expected a version from {oldest} to {newest}, which the replica has",
                metadata={"oldest": oldest, "newest": newest},
            )
        case model.Future():
            newest = str(error.newest)
            return Failure("FUTURE", f"expected a version up to {newest}, the newest", metadata={"newest": newest})
        case _:
            return Failure("NOT_CAUGHT_UP", "the replica is still loading the state", retry_s=RETRY_S)
