"""The sink action of a batch: each output partition writes its key groups' results in one transaction and reports
what it did. The task hands the results to the sink host (`moneystate.job.sink_host`), which writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from moneystate.job import sink_host
from moneystate.job.batch_writing import Report, SinkSpec, write_batch
from moneystate.job.figures import WORKER_MEMORY
from moneystate.job.group_results import Result, unpack
from moneystate.job.result_files import read_results, remove_results
from moneystate.kafka.sink import BatchId

REPORT_SCHEMA = "report binary"
ARROW_REPORT_SCHEMA = pa.schema([("report", pa.binary())])


def run_sink(spec: SinkSpec, results: DataFrame, batch: BatchId) -> Report:
    """Writes a batch. This is the only action on `results`, which are rows of `moneystate.job.result_files`."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        report = hand_over(spec, context.partitionId(), batch, _rows(batches))
        yield pa.RecordBatch.from_arrays([pa.array([report.pack()], pa.binary())], schema=ARROW_REPORT_SCHEMA)

    rows = results.mapInArrow(write, REPORT_SCHEMA).collect()
    whole = Report()
    for row in rows:
        whole.merge(Report.unpack(row.report))
    return whole


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        for row in batch.column(0):
            yield row.as_py()


def hand_over(spec: SinkSpec, partition: int, batch: BatchId, rows: Iterable[bytes]) -> Report:
    """Runs `write_partition` in the sink host, if this worker's daemon has one."""
    if not sink_host.is_there():
        return write_partition(spec, partition, batch, rows)
    place = (spec.config.bootstrap_servers, spec.config.application_id, partition)
    report: Report = sink_host.write(place, (spec, partition, batch), rows)
    return report


def write_partition(spec: SinkSpec, partition: int, batch: BatchId, rows: Iterable[bytes]) -> Report:
    """Writes one output partition's batch from the operator's rows."""
    left, read = iter(rows), list[bytes]()

    def results() -> Iterator[Result]:
        for row in chain(list(read), _noted(left, read)):
            yield from map(unpack, read_results(row))

    try:
        report = write_batch(spec, partition, batch, results)
    finally:
        remove_results(read)
    report.figures.memory_bytes = WORKER_MEMORY.by_daemon()
    return report


def _noted(rows: Iterator[bytes], read: list[bytes]) -> Iterator[bytes]:
    """Adds each row to `read`."""
    for row in rows:
        read.append(row)
        yield row
