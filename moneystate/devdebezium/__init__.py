"""The development Debezium: its PostgreSQL connector in a real Kafka Connect, on loopback, without Docker.

For development, tests and demos of what reads the changes of a database.
"""

from moneystate.devdebezium.connector import Connector
from moneystate.devdebezium.worker import DevDebezium

__all__ = ["Connector", "DevDebezium"]
