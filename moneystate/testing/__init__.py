"""The test kit of services: `Bench` runs one in memory, on the engine and codecs that a job has."""

from moneystate.testing.bench import CRASH, Bench

__all__ = ["CRASH", "Bench"]
