"""The only module that touches grpcio's private C core."""

from __future__ import annotations

import grpc
from grpc._cython import cygrpc as cygrpc  # type: ignore[attr-defined]

Queue = cygrpc.CompletionQueue


def raw_credentials(credentials: grpc.ServerCredentials) -> cygrpc.ServerCredentials:
    return credentials._credentials  # type: ignore[attr-defined]
