"""The real server as a process, and clients of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from moneystate.devbroker import DevBroker
from moneystate.serving.client import Client, Target
from moneystate.state.v1 import status_pb2
from tests.kafka.logs import Cluster
from tests.query import market_story
from tests.query import story as enrichment_story
from tests.query.story import Job
from tests.waiting import until

UP_S = 60.0  # a machine that is busy; the process itself takes a few seconds
LISTENING = re.compile(r"listening on (\S+) \(")


class Server:
    """`moneystate serve` on a free port, until the end of the block."""

    def __init__(self, cluster: Cluster, data: Path, *flags: str, job: Any = None) -> None:
        """`job`: what writes the changelog; else the enrichment's."""
        self.job: Any = job or Job(cluster)
        command = [sys.executable, "-m", "moneystate.cli.main", "serve"]
        command += ["--bootstrap-servers", cluster.bootstrap_servers, "--topic-prefix", cluster.prefix]
        command += ["--service", getattr(self.job, "service", Job.service)]
        command += ["--data", str(data), "--listen", "127.0.0.1:0", *flags]
        self.command = command
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the process)
        self.address = ""

    def __enter__(self) -> Server:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            self.command, stdout=self.log, stderr=self.log, env=environment, process_group=0
        )
        self.address = wait_for(self._listening, self.output)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(UP_S)
        self.log.close()

    def _listening(self) -> str:
        assert self.process.poll() is None, self.output()
        match = LISTENING.search(self.output())
        return match[1] if match else ""

    def output(self) -> str:
        """All of its output so far."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode()

    def client(self, **files: str) -> Client:
        return Client(Target(self.address, **files), UP_S)

    def told(self, **files: str) -> Server:
        """Once all versions of the story can be read."""
        story: Any = market_story if isinstance(self.job, market_story.MarketJob) else enrichment_story
        story.begin(self.job)
        self.caught_up(0, **files)
        story.go_on(self.job)
        return self.caught_up(story.LAST, **files)

    def caught_up(self, batch: int, **files: str) -> Server:
        """Once the version of this batch can be read."""
        with self.client(**files) as client:
            wait_for(lambda: is_at(client, batch), self.output)
        return self


def new_cluster(broker: DevBroker) -> Cluster:
    return Cluster(broker.bootstrap_servers, f"q{uuid.uuid4().hex[:12]}-")


def is_at(client: Client, batch: int) -> bool:
    status = client.call("Status.GetStatus", status_pb2.GetStatusRequest())
    return bool(status.caught_up and status.header.version.batch >= batch)


def wait_for(condition: Any, why: Any = lambda: "") -> Any:
    """Its first true value, looked for until a deadline."""
    return until(condition, why, UP_S)


def failure(call: Any) -> tuple[str, str]:
    """Status code and reason of a call that must fail."""
    try:
        call()
    except grpc.RpcError as e:
        return reason_of(e)
    raise AssertionError("expected a failure, found an answer")


def reason_of(error: Any) -> tuple[str, str]:
    status = rpc_status.from_call(error)
    info = ErrorInfo()
    for detail in status.details if status else ():
        if detail.Unpack(info):
            break
    return error.code().name, info.reason
