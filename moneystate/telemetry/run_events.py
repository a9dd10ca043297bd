"""A job's runs as events of OpenLineage: START, RUNNING, and COMPLETE, FAIL or ABORT.

Where they go is the configuration of OpenLineage's own client: OPENLINEAGE_URL, openlineage.yml or OPENLINEAGE__...
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from moneystate.errors import ConfigError
from moneystate.telemetry.datasets import Field, JobDatasets, Topic
from moneystate.telemetry.delivery import CLOSE_S, Delivery
from moneystate.telemetry.outbox import Outbox

try:
    from openlineage.client import OpenLineageClient, set_producer
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import (
        DatasetFacet,
        InputDatasetFacet,
        OutputDatasetFacet,
        RunFacet,
        dataset_version_dataset,
        error_message_run,
        input_statistics_input_dataset,
        job_type_job,
        output_statistics_output_dataset,
        parent_run,
        processing_engine_run,
        schema_dataset,
    )
    from openlineage.client.uuid import generate_new_uuid
except ImportError:
    raise ConfigError(
        "--openlineage: expected the package openlineage-python, which is not installed.",
        "pip install 'moneystate[openlineage]'.",
    ) from None

NAMESPACE, PARENT = "OPENLINEAGE_NAMESPACE", "OPENLINEAGE_PARENT_ID"
DEFAULT_NAMESPACE: Final = "moneystate"
CONSOLE, DISABLED = "console", "noop"
VERSION: Final = importlib.metadata.version("moneystate")
# The repository around the current folder is not the service's.
CONFIG: Final = {"facets": {"source_code_location": {"disabled": True}}}

Rows = Mapping[str, int]  # by topic, without prefix


class Client:
    """The way of the events of all jobs of a process."""

    def __init__(self, count: Callable[[int, str], None]) -> None:
        """Raises ConfigError."""
        # every retry would be a line of the log
        for library in ("openlineage", "urllib3.connectionpool"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        set_producer(f"urn:moneystate:{VERSION}")
        self.namespace = os.environ.get(NAMESPACE) or DEFAULT_NAMESPACE
        self.parent = _parent()
        self.client = _client()
        do = "see where OPENLINEAGE_URL or openlineage.yml sends them."
        delivery = Delivery("OpenLineage's events", do, count)
        self.outbox: Outbox[RunEvent] = Outbox(self.client.emit, delivery, "openlineage")

    def close(self) -> None:
        self.outbox.close()
        self.client.close(CLOSE_S)  # its transport may send later than it says


class RunEvents:
    """The events of one run of a job."""

    def __init__(
        self, job: JobDatasets, client: Client, interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`interval_s`: the least time between RUNNING events."""
        self.job = job
        self.client = client
        self.interval_s = interval_s
        self.clock = clock
        self.id = str(generate_new_uuid())
        self.schemas = {topic.name: _schema(topic) for topic in [*job.inputs, *job.outputs]}
        self.read: Rows = {}
        self.written: Rows = {}
        self.version = ""
        self.last_at = float("-inf")

    def start(self) -> None:
        self._emit(RunState.START)

    def progress(self, read: Rows, written: Rows, version: str) -> None:
        """`read`, `written`: of the whole run so far, by topic with prefix. `version`: of the state."""
        self.read, self.written, self.version = read, written, version
        if self.clock() - self.last_at >= self.interval_s:
            self._emit(RunState.RUNNING)

    def complete(self) -> None:
        self._emit(RunState.COMPLETE)

    def abort(self) -> None:
        self._emit(RunState.ABORT)

    def fail(self, message: str) -> None:
        """`message`: without values of records."""
        self._emit(RunState.FAIL, {"errorMessage": error_message_run.ErrorMessageRunFacet(message, "PYTHON")})

    def _emit(self, state: RunState, more: Mapping[str, RunFacet] | None = None) -> None:
        self.last_at = self.clock()
        engine = processing_engine_run.ProcessingEngineRunFacet(version=VERSION, name="moneystate")
        run: dict[str, RunFacet] = {"processing_engine": engine, **(more or {})}
        if self.client.parent is not None:
            run["parent"] = self.client.parent
        kind = job_type_job.JobTypeJobFacet(processingType="STREAMING", integration="MONEYSTATE", jobType="JOB")
        self.client.outbox.put(
            RunEvent(
                eventType=state,
                eventTime=datetime.now(UTC).isoformat(),
                run=Run(self.id, facets=run),
                job=Job(self.client.namespace, self.job.job, facets={"jobType": kind}),
                inputs=[self._input(topic.name) for topic in self.job.inputs],
                outputs=[self._output(topic.name) for topic in self.job.outputs],
            )
        )

    def _input(self, topic: str) -> InputDataset:
        of_run: dict[str, InputDatasetFacet] = {}
        if self.version:
            rows = self.read.get(topic, 0)
            of_run["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=rows)
        return InputDataset(self.job.namespace, topic, facets=dict(self.schemas[topic]), inputFacets=of_run)

    def _output(self, topic: str) -> OutputDataset:
        facets, of_run = dict(self.schemas[topic]), dict[str, OutputDatasetFacet]()
        if self.version:
            rows = self.written.get(topic, 0)
            statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
            of_run["outputStatistics"] = statistics
            if topic == self.job.changelog:
                facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(self.version)
        return OutputDataset(self.job.namespace, topic, facets=facets, outputFacets=of_run)


def _client() -> OpenLineageClient:
    """Raises ConfigError."""
    try:
        client = OpenLineageClient(config=CONFIG)
    except Exception as e:  # whatever its configuration makes it raise; the text may have a secret
        raise ConfigError(
            f"--openlineage: expected a configuration of OpenLineage's client, found one that it refuses "
            f"({type(e).__name__}).",
            "check openlineage.yml and the OPENLINEAGE variables.",
        ) from None
    if client.transport.kind == CONSOLE:
        raise ConfigError(
            "--openlineage: expected where to send events, found nothing.",
            "set OPENLINEAGE_URL, or write openlineage.yml with a transport such as http or file.",
        )
    return client


def _parent() -> parent_run.ParentRunFacet | None:
    """The run that has started this one, as schedulers name it: NAMESPACE/NAME/RUN_ID. Raises ConfigError."""
    text = os.environ.get(PARENT, "")
    if not text:
        return None
    match = re.fullmatch(r"(.+)/([^/]+)/([0-9a-fA-F-]{36})", text)
    if match is None:
        raise ConfigError(f"{PARENT}: expected NAMESPACE/NAME/RUN_ID, found {text}.", "correct it, or unset it.")
    namespace, name, run = match.groups()
    return parent_run.ParentRunFacet(run=parent_run.Run(run), job=parent_run.Job(namespace, name))


def _schema(topic: Topic) -> dict[str, DatasetFacet]:
    if not topic.schemas:
        return {}
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=_fields(topic.fields()))}


def _fields(fields: Sequence[Field]) -> list[schema_dataset.SchemaDatasetFacetFields]:
    return [schema_dataset.SchemaDatasetFacetFields(f.name, f.type, f.doc, fields=_fields(f.fields)) for f in fields]
