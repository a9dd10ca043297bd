"""`moneystate rollups plot`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from moneystate.cli.command import add, new_group
from moneystate.cli.connection import connected
from moneystate.cli.option import NUMBER, PATH, TIME, Panel, option
from moneystate.cli.times import parse_time_ms
from moneystate.errors import ConfigError
from moneystate.records.iso_time import to_ms
from moneystate.serving.client import Client
from moneystate.state.v1 import state_pb2 as s
from services.rollups.cli.picture import curve_of, draw
from services.rollups.queries import POINTS

FORMATS: Final = (".svg", ".png")


def plot(
    client: Client,
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="The device.")],
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="One of its metrics.")],
    from_: Annotated[str, option("from", "The beginning.", Panel.question, TIME, scope="rollups")],
    to: Annotated[str, option("to", "The end.", Panel.question, TIME, scope="rollups")],
    out: Annotated[Path, option("out", "The picture, an SVG or PNG by its name.", Panel.output, PATH, scope="rollups")],
    points: Annotated[
        int, option("points", "At most so many buckets.", Panel.question, NUMBER, scope="rollups")
    ] = POINTS,
    tier: Annotated[
        str, option("tier", "1m, 15m, 1h, 1d or 1mo.", Panel.question, "TIER", shown="the finest that fits")
    ] = "",
) -> None:
    """Draw a metric of a device over a time.

    The line is the mean, of a counter the rate by second. The band reaches from the least to the greatest value.
    Percentiles are drawn where the metric has them. Times without values are hatched, and buckets that were corrected
    are marked. Times are those of the device's zone.
    """
    if out.suffix not in FORMATS:
        raise ConfigError(f"--out {out}: expected a name that ends in {' or '.join(FORMATS)}.", "give another name.")
    arguments = {
        "device": device, "metric": metric, "from": parse_time_ms(from_, "--from"), "to": parse_time_ms(to, "--to"),
        "points": points, "tier": tier,
    }  # fmt: skip
    answer = client.call("State.Call", s.CallRequest(query="series", arguments=json.dumps(arguments)))
    draw(curve_of(json.loads(answer.result.json), to_ms), out)
    typer.echo(str(out))


app = new_group("rollups", "Pictures of rollups.")
add(app, connected(plot), "plot")
