"""The development broker: a real Apache Kafka on loopback, without Docker, Maven or root.

For development, tests and the demo. A single node without replication keeps no promise of durability.
"""

from moneystate.devbroker.broker import DevBroker
from moneystate.devbroker.java import find_java, java_home

__all__ = ["DevBroker", "find_java", "java_home"]
