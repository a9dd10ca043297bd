"""Pictures of a series, and the command that draws them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from moneystate.errors import ConfigError
from moneystate.state.v1 import state_pb2 as s
from services.rollups.cli.plot import plot

SERIES: dict[str, Any] = {
    "device": "7", "metric": "temp", "unit": "°C", "tier": "1h", "zone": "Europe/Berlin",
    "starts": ["2024-03-30T23:00:00Z", "2024-03-31T00:00:00Z", "2024-03-31T01:00:00Z", "2024-03-31T05:00:00Z"],
    "ends": ["2024-03-31T00:00:00Z", "2024-03-31T01:00:00Z", "2024-03-31T02:00:00Z", "2024-03-31T06:00:00Z"],
    "counts": [60, 60, 60, 60], "mins": [1.0, 2.0, 3.0, 4.0], "maxs": [5.0, 6.0, 7.0, 8.0],
    "means": [3.0, 4.0, 5.0, 6.0], "p50": [3.0, 4.0, 5.0, 6.0], "p90": [4.0, 5.0, 6.0, 7.0],
    "p99": [5.0, 6.0, 7.0, 8.0], "increases": None, "rates": None, "revisions": [1, 2, 1, 1],
    "gaps": [{"start": "2024-03-31T02:00:00Z", "end": "2024-03-31T05:00:00Z"}],
}  # fmt: skip


class Server:
    """Answers with a series, and keeps what it was asked."""

    def __init__(self, series: dict[str, Any]) -> None:
        self.series = series
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    def call(self, name: str, request: s.CallRequest) -> s.CallResponse:
        self.asked.append((name, request.query, json.loads(request.arguments)))
        return s.CallResponse(result=s.Record(json=json.dumps(self.series)))


def drawn(out: Path, **given: Any) -> tuple[str, Server]:
    server = Server({**SERIES, **given})
    plot(server, "7", "temp", "2024-03-31T00:00:00Z", "2024-04-01T00:00:00Z", out)  # type: ignore[arg-type]
    return out.read_text() if out.suffix == ".svg" else "", server


def test_mean_band_percentiles_gaps_and_corrections_are_drawn_in_local_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture, server = drawn(tmp_path / "a.svg")
    assert server.asked == [
        (
            "State.Call", "series",
            {"device": "7", "metric": "temp", "from": 1711843200000, "to": 1711929600000, "points": 1000, "tier": ""},
        )
    ]  # fmt: skip
    ids = set(re.findall(r'<g id="([a-z0-9-]+)"', picture))
    assert {"mean", "band", "p50", "p90", "p99", "gap-0", "corrected"} <= ids
    assert "<!-- 03:00 -->" in picture, "the hour from 2 is left out"
    assert "<!-- 02:00 -->" not in picture
    assert drawn(tmp_path / "b.svg")[0] == picture, "the same bytes each time"


def test_the_line_is_broken_at_a_gap(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture, _ = drawn(tmp_path / "a.svg")
    line = re.search(r'<g id="mean">\s*<path d="([^"]*)"', picture)
    assert line is not None
    assert line[1].count("M") == 2


def test_a_counter_is_drawn_by_its_rate(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture, _ = drawn(tmp_path / "a.svg", increases=[1, 2, 3, 4], rates=[None, 0.5, 0.25, 1.0])
    ids = set(re.findall(r'<g id="([a-z0-9-]+)"', picture))
    assert "mean" in ids
    assert not ids & {"band", "p50"}
    assert "°C/s" in picture


def test_a_png_is_one(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.svg or \.png"):
        drawn(tmp_path / "a.gif")
