"""The rows of a query: what SQLAlchemy reaches, with a cursor of the server, in one transaction that only reads.

The rows are read once, by one statement. In PostgreSQL the transaction is REPEATABLE READ and READ ONLY, in others it
has the first of these levels that they know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads
from sqlalchemy import Connection, CursorResult, Engine, create_engine
from sqlalchemy.engine.url import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from moneystate.errors import ConfigError, SourceError
from moneystate.records.json_text import MAX_RECORD_LEVELS, parse
from moneystate.tables.columns import Declared, key_of
from moneystate.tables.rows import ROW, Read
from moneystate.tables.source import CHUNK
from moneystate.tables.typed_rows import TypedRows

POSTGRES: Final = "postgresql"
POSTGRES_SCHEMES: Final = ("postgresql:", "postgres:")
LEVELS: Final = ("REPEATABLE READ", "SERIALIZABLE")
SECRET: Final = "a connection string"
DIGEST_CHARACTERS: Final = 12
# A server that is gone without a word is noticed within some 15 s, unless the connection string has other values.
NETWORK: Final[dict[str, Any]] = {
    "connect_timeout": 10, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 4,
    "tcp_user_timeout": 15_000,
}  # fmt: skip


class QuerySource:
    """`dsn_file`: has the connection string, as libpq or SQLAlchemy take it. It is read again for each load, because a
    secret may have been renewed."""

    unit = ROW
    where = "the query"

    def __init__(self, sql: str, dsn_file: Path, declared: Declared) -> None:
        self._sql = sql
        self._dsn_file = dsn_file
        self._declared = declared

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self._declared)

    @contextmanager
    def open(self) -> Iterator[OpenedQuery]:
        engine = self._engine()
        try:
            with engine.connect() as connection, connection.execution_options(**_reading(connection)).begin():
                result = connection.execution_options(
                    stream_results=True, yield_per=CHUNK, no_parameters=True
                ).exec_driver_sql(self._sql)
                yield OpenedQuery(result, self._declared, f"{_place(engine.url)}, query {_digest(self._sql)}")
        except SQLAlchemyError as e:
            raise failed(e) from None
        finally:
            engine.dispose()

    def _engine(self) -> Engine:
        """Raises ConfigError, which never has the connection string."""
        where = f"--dsn-file {self._dsn_file}"
        try:
            text = self._dsn_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(
                f"{where}: expected a file with {SECRET}, but {type(e).__name__}.", "create it."
            ) from None
        try:
            return postgres_engine(text) if is_libpq(text) else create_engine(make_url(text), poolclass=NullPool)
        except (ArgumentError, NoSuchModuleError, psycopg.ProgrammingError):
            raise ConfigError(
                f"{where}: expected {SECRET} as libpq or SQLAlchemy take it, found another text.",
                "write for example postgresql://USER@HOST/DATABASE.",
            ) from None
        except ModuleNotFoundError as e:
            raise ConfigError(
                f"{where}: expected the database's driver, but there is no {e.name}.", "install it."
            ) from None


class OpenedQuery:
    def __init__(self, result: CursorResult[Any], declared: Declared, identity: str) -> None:
        self.identity = identity
        self._result = result
        self._declared = declared

    def rows(self) -> Iterator[Read]:
        try:
            made = TypedRows(list(self._result.keys()), self._declared, QuerySource.where)
            for part in self._result.partitions(CHUNK):
                yield from map(made.row, part)
        except SQLAlchemyError as e:
            raise failed(e) from None

    def check_unchanged(self) -> None:
        """One statement sees the rows of one moment."""


def is_libpq(text: str) -> bool:
    return "://" not in text or text.startswith(POSTGRES_SCHEMES)


def postgres_engine(text: str) -> Engine:
    """libpq itself reads the string, so that all of its settings hold. Raises psycopg.ProgrammingError."""
    settings: dict[str, Any] = {**NETWORK, "application_name": "moneystate table load", **conninfo_to_dict(text)}

    def connect() -> psycopg.Connection[Any]:
        connection = psycopg.connect(**settings)
        set_json_loads(_json, connection)
        return connection

    url = URL.create(f"{POSTGRES}+psycopg", host=settings.get("host"), database=settings.get("dbname"))
    return create_engine(url, creator=connect, poolclass=NullPool)


def _json(text: str | bytes) -> Any:
    """Parses the text and keeps the numbers as they are written."""
    return parse(text if isinstance(text, str) else text.decode(), MAX_RECORD_LEVELS)


def failed(error: SQLAlchemyError) -> SourceError:
    """The driver's error without the statement. What PostgreSQL says about data has values of rows, so it is left
    out."""
    cause = getattr(error, "orig", None) or error
    why = type(cause).__name__
    if not isinstance(cause, psycopg.DataError | psycopg.IntegrityError):
        why = next(iter(str(cause).strip().splitlines()), why).rstrip(".")
    return SourceError(
        f"the database: expected the rows of the query, but {why}.",
        "check the query, the connection string and the grants.",
    )


def _reading(connection: Connection) -> dict[str, Any]:
    known = connection.dialect.get_isolation_level_values(connection.connection.dbapi_connection)  # type: ignore[arg-type]
    level = next((level for level in LEVELS if level in known), None)
    options: dict[str, Any] = {} if level is None else {"isolation_level": level}
    return {**options, "postgresql_readonly": True} if connection.dialect.name == POSTGRES else options


def _place(url: URL) -> str:
    """The database without its user and password."""
    return f"{url.get_backend_name()} {url.host or ''}/{url.database or ''}"


def _digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()[:DIGEST_CHARACTERS]
