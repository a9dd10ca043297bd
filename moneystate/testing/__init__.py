"""The test kit for services: `Bench` runs a service in memory, on the engine and codecs of a real job."""

from moneystate.testing.bench import CRASH, Bench

__all__ = ["CRASH", "Bench"]
