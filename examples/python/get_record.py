"""Asks the query server of a service for a record or for a declared query.

    python get_record.py [--address HOST:PORT] [--tls-ca FILE] [--token-file FILE] get STATE KEY [ID]
    python get_record.py [...] call QUERY ARGUMENTS        ARGUMENTS: a JSON object

Needs grpcio, grpcio-status and the generated code in moneystate/state/v1.
Exit codes: 0 answered, 1 an error of the server.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from moneystate.state.v1 import state_pb2, state_pb2_grpc


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--address", default="127.0.0.1:8484")
    p.add_argument("--tls-ca", type=Path, help="who has signed the server's certificate; without: no TLS")
    p.add_argument("--token-file", type=Path)
    p.add_argument("what", choices=["get", "call"])
    p.add_argument("words", nargs="+")
    a = p.parse_args()
    metadata = (("authorization", f"Bearer {a.token_file.read_text().strip()}"),) if a.token_file else ()
    with connect(a.address, a.tls_ca) as channel:
        stub = state_pb2_grpc.StateStub(channel)
        try:
            if a.what == "call":
                query, arguments = a.words
                request = state_pb2.CallRequest(query=query, arguments=arguments)
                records = [stub.Call(request, timeout=5, metadata=metadata).result]
            else:
                name = state_pb2.RecordName(**dict(zip(("state", "key", "id"), a.words, strict=False)))
                records = stub.Get(state_pb2.GetRequest(name=name), timeout=5, metadata=metadata).records
        except grpc.RpcError as e:
            print(told(e), file=sys.stderr)
            return 1
    for record in records:
        print(record.json)
    return 0


def connect(address: str, ca: Path | None) -> grpc.Channel:
    if ca is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca.read_bytes()))


def told(error: grpc.RpcError) -> str:
    """The reason that programs can go by, beside the message for people."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = ErrorInfo()
        if detail.Unpack(info):
            return f"{info.reason}: {status.message}"
    return str(error)


if __name__ == "__main__":
    raise SystemExit(main())
