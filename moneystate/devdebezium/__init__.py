"""The development Debezium: its PostgreSQL connector in a real Kafka Connect, on loopback, without Docker.

For development, tests and demos of what reads the changes of a database.
"""

from moneystate.devdebezium.connector import SIGNALS_TABLE, Connector
from moneystate.devdebezium.sent import await_sent
from moneystate.devdebezium.worker import DevDebezium

__all__ = ["SIGNALS_TABLE", "Connector", "DevDebezium", "await_sent"]
