"""Connections to the database, and their errors."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import Connection, Cursor
from psycopg.conninfo import conninfo_to_dict

from moneystate.apply.config import Settings
from moneystate.apply.sqlstates import Verdict, verdict
from moneystate.errors import ConfigError, SetupError

ENCODING: Final = "UTF8"
# A stopped instance must not keep its locks: its successor goes on after at most this time.
IDLE_MS: Final = 5_000
STATEMENT_MS: Final = 20_000
LOCK_MS: Final = 1_000
# A server that is gone without a word is noticed within some 15 s, unless the connection string has other values.
NETWORK: Final[dict[str, Any]] = {
    "connect_timeout": 10, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 4,
    "tcp_user_timeout": 15_000,
}  # fmt: skip
BEGIN: Final = (
    "BEGIN ISOLATION LEVEL {level}; "
    f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}; SET LOCAL statement_timeout = {STATEMENT_MS}; "
    f"SET LOCAL lock_timeout = {LOCK_MS}; SET LOCAL client_min_messages = warning"
)
READ_COMMITTED: Final = "READ COMMITTED"
REPEATABLE_READ: Final = "REPEATABLE READ"
REFUSALS: Final = re.compile(
    'authentication failed|no password supplied|pg_hba.conf|(role|database) ".*" (does not exist|is not permitted)|'
    "permission denied for database|certificate verify failed|server does not support SSL"
)
SECRET: Final = "the connection string"

Connected = Connection[Any]
Tx = Cursor[Any]


class Unavailable(Exception):
    """The database cannot be used at the moment. Its text says why, without a part of the connection string."""

    def __init__(self, why: str, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused  # the login or the database's name


class Database:
    """Makes connections. The connection string is read again for each: a secret may have been renewed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def dsn(self) -> str:
        """Raises ConfigError, which does not have the string."""
        s = self._settings
        if s.dsn_env:
            text = os.environ.get(s.dsn_env, "").strip()
            where = f"dsn-env {s.dsn_env}"
        else:
            where = f"dsn-file {s.dsn_file}"
            try:
                text = Path(s.dsn_file).read_text().strip()
            except (OSError, UnicodeDecodeError) as e:
                raise ConfigError(
                    f"{where}: expected a file with {SECRET}, but {type(e).__name__}.", "create it."
                ) from None
        if not text:
            raise ConfigError(f"{where}: expected {SECRET}, found none.", "set it.")
        try:
            conninfo_to_dict(text)
        except psycopg.ProgrammingError:
            raise ConfigError(
                f"{where}: expected {SECRET}, found another text.", "see PostgreSQL's manual, libpq."
            ) from None
        return text

    def connect(self) -> Connected:
        """A connection whose transactions begin and end by statements. Raises Unavailable and ConfigError, and
        SetupError for a database that is not in UTF-8."""
        try:
            dsn = self.dsn()
            connection = psycopg.connect(
                dsn,
                **{name: value for name, value in NETWORK.items() if name not in conninfo_to_dict(dsn)},
                autocommit=True,
                prepare_threshold=None,  # a pooler may give each transaction another session
                client_encoding=ENCODING,
                application_name=f"moneystate {self._settings.application}"[:63],
            )
        except psycopg.Error as e:
            raise unavailable(e) from None
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != ENCODING:
            connection.close()
            raise SetupError(
                f"the database: expected the encoding {ENCODING}, found {encoding}.",
                "use a database with ENCODING 'UTF8': others cannot store all texts.",
            )
        return connection


def begin(connection: Connected, level: str) -> None:
    connection.execute(BEGIN.format(level=level))


def rolled_back(connection: Connected) -> bool:
    """Ends the transaction. False: the connection is gone."""
    try:
        if not connection.closed:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        return False
    return not connection.closed


def judge(error: psycopg.Error) -> Verdict:
    """Returns what an error means. psycopg itself raises some without asking the server."""
    if error.sqlstate is None:
        if isinstance(error, psycopg.DataError):
            return Verdict.data
        if isinstance(error, psycopg.ProgrammingError | psycopg.NotSupportedError):
            return Verdict.stop
    return verdict(error.sqlstate, str(error))


def unavailable(error: psycopg.Error) -> Unavailable:
    """libpq gives no SQLSTATE to an error of a connection, so what the server says of a login decides. In another
    language than English it counts as an outage, which is waited for and logged."""
    refused = judge(error) is Verdict.refused or REFUSALS.search(str(error)) is not None
    return Unavailable(said(error), refused)


def said(error: psycopg.Error) -> str:
    """The class of an error and what the server says about it. Details and contexts have values of rows, so they are
    left out; so are messages about data."""
    name = f"{type(error).__name__}" + (f" ({error.sqlstate})" if error.sqlstate else "")
    diag = error.diag
    where = [text for text in (diag.schema_name, diag.table_name, diag.column_name, diag.constraint_name) if text]
    if judge(error) is Verdict.data:
        return f"{name}{' at ' + '.'.join(where) if where else ''}"
    message = diag.message_primary or str(error).strip().split("\n")[0]
    return f"{name}: {message}"
