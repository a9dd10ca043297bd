"""`python -m tests.bench.plots scale FILE.json OUT.svg`: the run of `tests.bench.scale` as a plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "moneystate"  # the same figures make the same file
from matplotlib import pyplot as plt  # noqa: E402

INTERVALS = 10


def scale(measured: dict[str, Any]) -> Any:
    """Outputs a second, batch time, checkpoint and memory, against users with state."""
    samples = [s for s in measured["samples"] if s["users"]]
    millions = [s["users"] / 1e6 for s in samples]
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    rates = _rates(samples)
    axes[0, 0].plot([x for x, _ in rates], [y for _, y in rates])
    axes[0, 0].set(title="outputs a second", ylim=(0, None))
    batches = measured["batches"][1:]
    axes[0, 1].plot([millions[-1] * (n + 1) / len(batches) for n in range(len(batches))], batches)
    axes[0, 1].set(title="seconds from batch to batch", ylim=(0, None))
    axes[1, 0].plot(millions, [s["checkpoint_mb"] for s in samples])
    axes[1, 0].set(title="checkpoint, MB", ylim=(0, None))
    axes[1, 1].plot(millions, [s["rss_mb"] for s in samples])
    axes[1, 1].set(title="peak memory of all processes, MB", ylim=(0, None))
    for axis in axes.flat:
        axis.set_xlabel("users with state, millions")
        axis.grid(alpha=0.3)
    return figure


def _rates(samples: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """(million users, outputs a second) over stretches that are longer than a batch."""
    points = []
    before = samples[0]
    for sample in samples:
        users, seconds = sample["users"] - before["users"], sample["seconds"] - before["seconds"]
        if users >= samples[-1]["users"] / INTERVALS:
            points.append((sample["users"] / 1e6, users / max(seconds, 1e-9)))
            before = sample
    return points


if __name__ == "__main__":
    _, kind, source, target = sys.argv
    {"scale": scale}[kind](json.loads(Path(source).read_text())).savefig(target, metadata={"Date": None})
