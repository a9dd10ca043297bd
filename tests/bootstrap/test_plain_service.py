"""A bootstrap of a service is what its live job is."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from moneystate.bootstrap.job import Bootstrap
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.engine.items import END_OF_TIME, Header
from moneystate.engine.place import MARK, PLACE, cause_of, place_of, time_bytes
from moneystate.errors import ArchiveError
from moneystate.ports.service import JobSpec
from moneystate.records.platform_records import Heartbeat
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.job import job_spec, service_spec
from moneystate.runtime.plans import plan_of
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import Savepoint
from moneystate.testing.simulation import Input, Simulation
from tests.api.services import limited
from tests.api.services.chain import Stands
from tests.bootstrap.harness import Here, write_archive

MAILBOX = "tests.api.services.mailbox:service"
LIMITED = "tests.api.services.limited:service"
TIMES = [10_000, 9_000, 15_000, 7_000, 14_500, 13_000]


def check_bootstrap_equals(live: Simulation, job: JobSpec, records: list[Input], tmp_path: Path) -> Savepoint:
    """The savepoint that a bootstrap makes of the records has the state and the outputs of one live batch."""
    write_archive(tmp_path / "archive", records, live.partitions, names=plan_of(job.service).topics)
    options = BootstrapOptions(
        sources=[str(tmp_path / "archive")], out=tmp_path / "made", with_output=True, key_groups=2, partitions=1,
        max_records_per_chunk=4,
    )  # fmt: skip
    Bootstrap(job, options, lambda _: None).run(Here())
    live.batch(records)
    made = Savepoint(tmp_path / "made")
    groups = [of_group(n, sorted(s.entries.items()), job.state, job.rules) for n, s in enumerate(live.states)]
    assert made.manifest.fingerprint == str(sum(groups, Fingerprint()))
    outputs = [output for group in range(2) for output in made.outputs(group)]
    assert sorted(outputs) == sorted(live.outputs)
    return made


def test_a_bootstrap_takes_each_input_with_its_own_bound(tmp_path: Path) -> None:
    job = job_spec(LIMITED, {"bound_ms": 1_000})
    plan = plan_of(job.service)
    codes = plan.codes
    live = Simulation(
        ServiceDecoder(plan), job.inputs, [(code, 0) for code in codes.values()], job.make, job.bound_ms,
        key_groups=2, dead_letter_stream=plan.dead_letter_stream,
    )  # fmt: skip
    records = []
    for cls, topic in ((limited.Fast, "fast"), (limited.Slow, "slow"), (limited.Plain, "plain")):
        codec = next(iter(plan.inputs[codes[topic]].values())).codec
        for offset, time in enumerate(TIMES):
            records.append(Input(codes[topic], 0, offset, -1, None, codec.encode(cls(f"k{offset}", time)), []))
    check_bootstrap_equals(live, job, records, tmp_path)
    assert live.outputs
    assert live.watermark == 13_000  # of slow: 15 s less 2 s


@pytest.mark.parametrize("with_headers", [True, False])
def test_an_archive_without_headers_is_refused_where_an_input_needs_them(tmp_path: Path, with_headers: bool) -> None:
    job = job_spec(MAILBOX, {})
    fields: dict[str, Any] = {"offset": 0, "timestamp": 5, "timestampType": 0, "key": None, "value": None}
    if with_headers:
        header = {"host": "h1", "at": "5"}
        fields["headers"] = [{"key": k, "value": base64.b64encode(v.encode()).decode()} for k, v in header.items()]
    for topic in plan_of(job.service).codes:
        (tmp_path / "archive" / topic / "0").mkdir(parents=True)
    (tmp_path / "archive" / "pings" / "0" / "0-0.jsonl").write_text(json.dumps(fields) + "\n")
    options = BootstrapOptions(
        sources=[str(tmp_path / "archive")], out=tmp_path / "made", key_groups=1, partitions=1,
        formats=dict(service_spec(MAILBOX).formats),
    )  # fmt: skip
    bootstrap = Bootstrap(job, options, lambda _: None)
    if with_headers:
        assert bootstrap.run(Here()).records == 1
    else:
        with pytest.raises(ArchiveError, match=r"0-0.jsonl: expected records with headers, .* found record 0 without"):
            bootstrap.run(Here())


CHAIN = "tests.api.services.chain:branches"


def test_a_bootstrap_reads_the_places_and_marks_that_an_archive_has_kept(tmp_path: Path) -> None:
    job = job_spec(CHAIN, {})
    plan = plan_of(job.service)
    code, closings = plan.codes["stands"], plan.codes["closings"]
    codec = next(iter(plan.inputs[code].values())).codec
    decoder = ServiceDecoder(plan)
    live = Simulation(
        decoder, job.inputs, [(code, 0), (code, 1), (closings, 0)], job.make, job.bound_ms, key_groups=2,
        dead_letter_stream=plan.dead_letter_stream, reads=decoder.reads({}, {}),
    )  # fmt: skip
    records = [Input(closings, 0, 0, -1, None, plan.heartbeat.encode(Heartbeat(40_500)), [])]
    for partition in (0, 1):
        for n in range(9):
            time = 1_000 * (n // 2) + 500 * partition
            mark = time if n < 8 else END_OF_TIME
            headers: list[Header] = (
                [(MARK, time_bytes(mark))]
                if n % 2 == 0
                else [(PLACE, place_of(cause_of((time + 7, 0, 0, 0, 0, n, 0, b"k", b"")), partition))]
            )
            value = codec.encode(Stands(f"x{n}", "xy"[partition], n, "why"))
            records.append(Input(code, partition, n, -1, None, value, headers, whole=True))
    made = check_bootstrap_equals(live, job, records, tmp_path)
    assert len(live.outputs) >= 8
    assert (made.manifest.watermark, live.watermark) == (40_000, 40_000)  # the streams have ended, closings have not
