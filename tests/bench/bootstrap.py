"""`make bench ARGS=bootstrap`: the bootstrap beside the streaming job, on the same input."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from moneystate.devbroker import DevBroker
from tests.bench.backlog import PARTITIONS, create_topics, send_workload
from tests.bench.tree import Tree
from tests.enrichment import topics

PREFIX = "b-"
ROOT = Path(__file__).resolve().parents[2]


def timed(name: str, arguments: list[str], folder: Path) -> None:
    """Run a command to its end and print its figures."""
    started = time.monotonic()
    with (folder / f"{name}.err").open("w") as err:
        command = [sys.executable, "-m", "moneystate.cli.main", *arguments, "--json", "--quiet"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True, cwd=ROOT)
        tree = Tree(process.pid)
        printed, _ = process.communicate()
    tree.end()
    if process.returncode:
        raise RuntimeError((folder / f"{name}.err").read_text()[-2000:])
    seconds = time.monotonic() - started
    records = json.loads(printed.splitlines()[-1])["records"]
    print(
        f"{name}: {records:,} records in {seconds:.1f} s, {records / seconds:,.0f}/s, "
        f"{tree.cpu_s:.0f} s of processors, at most {tree.rss // 2**20:,} MB",
        flush=True,
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--users", type=int, default=200_000)
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker") as broker:
            servers = broker.bootstrap_servers
            send_workload(servers, PREFIX, a.events, a.users, "--seed", "11")
            create_topics(
                servers, [PREFIX + topics.NAMES[topics.LOOKUP_RESULTS]], PARTITIONS
            )  # the job would create it
            source = ["--bootstrap-servers", servers, "--topic-prefix", PREFIX]
            from_kafka = ["--from", "kafka", *source, "--out", str(folder / "savepoint")]
            checkpoint = ["--checkpoint", str(folder / "checkpoint")]
            timed("bootstrap", ["bootstrap", "--service", "enrichment", *from_kafka], folder)
            timed("job", ["run", "enrichment", *source, *checkpoint, "--until-caught-up"], folder)
