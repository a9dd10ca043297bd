"""The last revisions of all buckets are what ClickHouse's SQL makes of the raw readings: an engine of others, which
sees neither the order of events nor timers. It runs inside of this process: chdb, fetched for this test."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from moneystate.testing import Bench
from services.rollups.config import Config
from services.rollups.records import Metric, Reading, Rollup
from services.rollups.service import rollups
from tests.budget import examples
from tests.services.rollups.workload import DAY, METRICS, ZONES, case_of, records

chdb = pytest.importorskip("chdb", reason="no chdb here: rollups are not compared with SQL")

LONG = {"keep_15m_ms": 90 * DAY, "keep_1h_ms": 90 * DAY, "keep_1d_ms": 400 * DAY, "put_out_1m": False}
OVER_MIDNIGHT = ("America/St_Johns",)  # clocks go back over midnight: a date is not one time
BUCKETS = """
WITH
    readings AS (
        SELECT *, value * factor AS product, intDiv(at, 900000) * 900000 AS block
        FROM file('{folder}/readings.json', 'JSONEachRow',
            'device String, at Int64, arrival Int64, id Nullable(String), metric String, value Float64') AS given
        INNER JOIN file('{folder}/metrics.json', 'JSONEachRow',
            'metric String, factor Float64, low Nullable(Float64), high Nullable(Float64), counter Bool') AS rules
        USING metric
        WHERE at <= arrival + 300000 AND arrival - at <= {horizon}
    ),
    good AS (
        SELECT *, toInt64(roundBankers(product)) AS v, min(arrival) OVER (PARTITION BY device, block) AS opened
        FROM readings
        WHERE abs(product) < 9007199254740992
            AND roundBankers(product) >= ifNull(low * factor, -1e300)
            AND roundBankers(product) <= ifNull(high * factor, 1e300)
    ),
    won AS (
        SELECT device, metric, at, any(counter) AS is_counter,
            argMin(v, (isNull(id), ifNull(id, ''), v)) AS v
        FROM good
        WHERE arrival <= greatest(block + 900000, opened) + {exact}
        GROUP BY device, metric, at
    ),
    tiers AS (
        SELECT '15m' AS tier, toString(at - at % 900000) AS bucket, * FROM won
        UNION ALL SELECT '1h', toString(at - at % 3600000), * FROM won
        UNION ALL SELECT '1d', toString(toDate(toDateTime(intDiv(at, 1000), '{zone}'))), * FROM won
    )
SELECT tier, device, bucket, metric, count() AS n, min(v) AS low, max(v) AS high, toString(sum(toInt256(v))) AS total,
    argMin(v, at) AS first, argMax(v, at) AS last, min(at) AS first_at, max(at) AS last_at,
    arraySort(groupArray(v)) AS sorted,
    arrayMap(pair -> pair.2, arraySort(groupArray((at, v)))) AS by_time,
    arraySum(arrayMap((a, b) -> if(b >= a, b - a, b), arrayPopBack(by_time), arrayPopFront(by_time))) AS grown
FROM tiers GROUP BY tier, device, bucket, metric
"""


def in_sql(folder: Path, config: Config, log: list[tuple[int, Reading]]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Returns the results by tier, device, bucket and metric. The bucket of a day is its date, of others its start."""
    with (folder / "readings.json").open("w") as file:
        for arrival, e in log:
            for metric, value in e.metrics.items():
                row = {"device": e.device_id, "at": e.at, "arrival": arrival, "id": e.reading_id, "metric": metric}
                if value is not None:
                    file.write(json.dumps({**row, "value": value}) + "\n")
    with (folder / "metrics.json").open("w") as file:
        for name, rule in METRICS.items():
            low = 0.0 if rule.counter else rule.min
            limits = {"factor": 10.0**rule.digits, "low": low, "high": rule.max}
            file.write(json.dumps({"metric": name, "counter": rule.counter, **limits}) + "\n")
    query = BUCKETS.format(folder=folder, horizon=config.horizon_ms, exact=config.exact_ms, zone=config.zone)
    answer = str(chdb.query(query, "JSONEachRow")).splitlines()
    rows = [json.loads(line) for line in answer if line]
    return {(row["tier"], row["device"], row["bucket"], row["metric"]): row for row in rows}


def by_service(bench: Bench, zone: str) -> dict[tuple[str, ...], Metric]:
    last: dict[tuple[str, str], Rollup] = {}
    for output in bench.service.outputs:
        tier = output.topic.removeprefix("rollups-")
        last.update({(tier, key): record for key, record in bench.keyed(output) if record is not None})
    result: dict[tuple[str, ...], Metric] = {}
    for (tier, _), record in last.items():
        date = datetime.fromtimestamp(record.start / 1000, UTC).astimezone(ZoneInfo(zone)).date()
        bucket = date.isoformat() if tier == "1d" else str(record.start)
        result.update({(tier, record.device_id, bucket, name): metric for name, metric in record.metrics.items()})
    return result


def check(name: str, row: dict[str, Any], metric: Metric) -> None:
    scale = 10 ** METRICS[name].digits
    n = int(row["n"])
    for percent, value in ((50, metric.p50), (90, metric.p90), (99, metric.p99)):
        exact = int(row["sorted"][percent * (n - 1) // 100]) / scale
        if METRICS[name].percentiles:
            assert value is not None
            assert abs(value - exact) <= 0.01 * abs(exact) + 1e-12
        else:
            assert value is None
    assert (metric.count, metric.first_at, metric.last_at) == (n, int(row["first_at"]), int(row["last_at"]))
    values = [metric.min, metric.max, metric.first, metric.last]
    assert values == [int(row[it]) / scale for it in ("low", "high", "first", "last")]
    assert int(metric.sum.scaleb(METRICS[name].digits)) == int(row["total"])
    assert metric.mean == int(row["total"]) / (n * scale)
    assert metric.increase == (int(row["grown"]) / scale if METRICS[name].counter else None)


def compare(seed: int, folder: Path, count: int = 160) -> int:
    chance = random.Random(seed)
    case = case_of(chance, zones=[its for its in ZONES if its[0] not in OVER_MIDNIGHT], order="arrival", **LONG)
    bench = Bench(rollups(case.config), seed=seed)
    log = list(records(chance, case, count, commands=False))
    for now, record in log:
        bench.send(record, arrival_ms=now)
    bench.end()
    wanted, result = in_sql(folder, case.config, log), by_service(bench, case.config.zone)
    assert set(result) == set(wanted), seed
    for key, row in wanted.items():
        check(key[3], row, result[key])
    return len(wanted)


def test_buckets_are_those_of_sql_over_the_raw_readings(tmp_path: Path) -> None:
    assert sum(compare(seed, tmp_path) for seed in range(1_000, 1_000 + examples(12))) > 1_000
