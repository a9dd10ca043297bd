"""Asks a query server for a user, and says why where there is no answer.

    python get_user.py [--address HOST:PORT] [--tls-ca FILE] [--token-file FILE] USER

Needs grpcio, grpcio-status and the generated code in moneystate/query/v1.
Exit codes: 0 answered, 1 an error of the server.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from moneystate.query.v1 import query_pb2, query_pb2_grpc, user_pb2


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--address", default="127.0.0.1:8484")
    p.add_argument("--tls-ca", type=Path, help="who has signed the server's certificate; without: no TLS")
    p.add_argument("--token-file", type=Path)
    p.add_argument("user")
    a = p.parse_args()
    metadata = (("authorization", f"Bearer {a.token_file.read_text().strip()}"),) if a.token_file else ()
    with connect(a.address, a.tls_ca) as channel:
        try:
            request = query_pb2.GetUserRequest(user_id=a.user)
            answer = query_pb2_grpc.QueryStub(channel).GetUser(request, timeout=5, metadata=metadata)
        except grpc.RpcError as e:
            print(told(e), file=sys.stderr)
            return 1
    user, version = answer.user, answer.header.version
    print(f"version {version.epoch}/{version.batch}: {user.user_id}")
    country = personal(user.resident_country_code) if user.HasField("resident_country_code") else "unknown"
    birth_year = personal(user.birth_year) if user.HasField("birth_year") else "unknown"
    print(f"country {country}, birth year {birth_year}")
    for money in user.waiting:
        print(f"waiting: {money.money_id}, {money.amount} {money.currency}, for session {money.session_id}")
    return 0


def connect(address: str, ca: Path | None) -> grpc.Channel:
    if ca is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca.read_bytes()))


def personal(text: user_pb2.PersonalText) -> str:
    return "masked" if text.masked else text.value


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
