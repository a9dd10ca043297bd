"""The interface on a real socket and a real broker, in a thread, and its clients."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from moneystate.deliver.history import Record, to_json
from moneystate.deliver.interface.options import InterfaceOptions
from moneystate.deliver.interface.process import Interface
from moneystate.kafka.partitions import partition_of_key
from moneystate.serving.http_server import bound
from tests.ingest.harness import Client, Reply, written
from tests.kafka.logs import Cluster

ROUTER = "services.delivery.service:delivery"
SIGNING = "whsec_" + "QUJD" * 10
PARTITIONS = 4
LOGS = ("deliveries", "delivery-log", "undelivered", "delivery-commands", "endpoint-status")


def options(cluster: Cluster, folder: Path, **changes: Any) -> InterfaceOptions:
    secrets = folder / "secrets"
    secrets.mkdir(exist_ok=True)
    made = InterfaceOptions(ROUTER, cluster.bootstrap_servers, "127.0.0.1:0", str(secrets), topic_prefix=cluster.prefix)
    return replace(made, **changes)


class Site:
    """One interface that runs."""

    def __init__(self, cluster: Cluster, port: int, context: ssl.SSLContext | None) -> None:
        self.cluster = cluster
        self.port = port
        self.context = context

    def call(self, method: str, path: str, body: Any = None, token: str = "") -> Reply:
        client = Client(self.port, self.context, token)
        content = None if body is None else json.dumps(body).encode()
        headers: Mapping[str, str] = {**client.headers, "Content-Type": "application/json"}
        try:
            client.connection.request(method, path, content, dict(headers))
            answer = client.connection.getresponse()
            text = answer.read()
            is_json = text and answer.headers["content-type"] == "application/json"
            given = {name.lower(): value for name, value in answer.headers.items()}
            return Reply(answer.status, given, json.loads(text) if is_json else text.decode())
        finally:
            client.connection.close()

    def rows(self, table: str) -> list[tuple[str | None, Any]]:
        """All records of a table, in the order of each partition."""
        return [
            (None if r.key is None else r.key.decode(), json.loads(r.value) if r.value else None)
            for r in written(self.cluster.bootstrap_servers, self.cluster.prefix + table)
        ]

    def endpoint(self, token: str = "", **fields: Any) -> str:
        """A new one; its id."""
        reply = self.call(
            "POST", "/v1/endpoints", {"url": "https://example.com/hook", "owner": "acme", **fields}, token
        )
        assert reply.status == 201, reply
        id: str = reply.body["endpointId"]
        return id

    def append(self, topic: str, endpoint_id: str, *values: bytes | Record) -> None:
        """As workers and the router do."""
        name, key = self.cluster.prefix + topic, endpoint_id.encode()
        contents = [value if isinstance(value, bytes) else to_json(value) for value in values]
        self.cluster.send(name, contents, partition_of_key(key, PARTITIONS), key=key)


@contextmanager
def running(cluster: Cluster, chosen: InterfaceOptions, context: ssl.SSLContext | None = None) -> Iterator[Site]:
    existing = cluster.names()
    for name in LOGS:
        if cluster.prefix + name not in existing:
            cluster.create(name, PARTITIONS)
    with bound(chosen.listen) as listening, Interface(chosen) as interface:
        listening.listen()
        loop, stop = asyncio.new_event_loop(), asyncio.Event()
        thread = threading.Thread(target=lambda: loop.run_until_complete(interface.serve(listening, stop)))
        thread.start()
        try:
            yield Site(cluster, listening.getsockname()[1], context)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()
