"""The development PostgreSQL: a real server on loopback, without Docker or a hand.

For development, tests and demos. It does not sync its files, so it survives the end of a process but not of a machine.
"""

from moneystate.devpostgres.server import DevPostgres

__all__ = ["DevPostgres"]
