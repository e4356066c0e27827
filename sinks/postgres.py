"""Writes results into a table of PostgreSQL: one row per id, with its latest revision.

    id text primary key, query, op, revision bigint, final, confidence,
    start_ns, end_ns bigint, record jsonb, written_at timestamptz

`record` is the whole result (`record->'values'`, `record->'events'`). A missing table is created,
with an index on (query, start_ns). A retract keeps the row: readers filter with `where op <>
'retract'`, and the row's revision blocks older revisions that arrive later. Retracted rows may be
deleted once the topic can no longer deliver older revisions of them.

One statement writes up to `ROWS_PER_STATEMENT` results, and up to `BYTES_PER_STATEMENT` unless a
single result has more. It inserts a row, or updates it if the new revision is higher. Rows are
locked in the order of their ids, so several sinks on one table do not deadlock. A `write` is one
transaction; the server's `synchronous_commit` decides how durable it is. The marks of the reader
are part of it (`sinks.postgres_marks`).

A table may be slow, for example because of a trigger. If a statement is cancelled after
`STATEMENT_TIMEOUT_S`, the next ones write half as many rows, and each is a transaction of its own.
So what was written is kept. After quick statements the number doubles again.

Errors of the server are distinguished by SQLSTATE:

* Content (CONTENT) that the table can never hold: a NUL character, a number beyond its range, a
  value too long for an index. A row that breaks a constraint, or that a user's own trigger refuses,
  counts too. The batch is halved, each half in a savepoint, until the faulty rows are found one by
  one. They are returned as `Refused`. With k such rows among n this costs about 2 k log n
  statements. If the table refuses many in a row, `sinks.refusals` takes the table to be at fault.
* An internal error (INTERNAL), for example of an array with more elements than jsonb holds. It
  counts as content if the row is alone and above `LARGE_BYTES`, and a statement without rows
  succeeds.
* An unusable database or table (PLACE): for example, columns or rights are missing. These errors
  raise SinkUnusable.
* All other errors may be temporary. The connection is opened again, `ATTEMPTS` times, with a pause
  of `BACKOFF_S` and then twice that. (While a connection is opened no SQLSTATE is known. So a wrong
  password is tried again too, and reported in the server's words.)

A row that nobody could read is refused here, because the server itself would accept it. The server
writes numbers out in full when they are selected, and fails if a value then exceeds a gibibyte. The
bound is `READABLE_BYTES`, which includes the digits that exponents add.

The connection is opened at the first `write`. It uses UTF-8, whatever the environment says
(PGCLIENTENCODING).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from sinks.attempts import ATTEMPTS, retry
from sinks.postgres_marks import NAME, Connection, MarksMissing, TableMarks
from sinks.result import Result, select_newest, split_results
from sinks.sink import (
    BegunAnew,
    Marks,
    Progress,
    Reader,
    Refused,
    SinkError,
    SinkUnavailable,
    SinkUnusable,
)

CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_S: Final = 30
ROWS_PER_STATEMENT: Final = 1_000
BYTES_PER_STATEMENT: Final = 8 << 20
QUICK: Final = 0.25
"""The share of `STATEMENT_TIMEOUT_S` up to which a statement is quick."""
LARGE_BYTES: Final = 1 << 20
NO_PROGRESS: Final = Progress(Reader("", ""), {})
READABLE_BYTES: Final = 64 << 20
UNSUSPECTED_BYTES: Final = 32 << 10
"""Size below which exponents cannot exceed `READABLE_BYTES`: nine bytes are at most 16,385 digits.
"""

MAX_NAME_CHARS: Final = 63

CONTENT: Final = ("22", "23", "44", "54", "P0001")
"""Prefixes of SQLSTATE: data exception, integrity, WITH CHECK OPTION, program limit, RAISE."""

PLACE: Final = ("0A", "28", "3D", "3F", "42")
"""Classes of SQLSTATE: not supported, authorization, no such database or schema, access or name."""

CANCELLED: Final = "57014"
INTERNAL: Final = "XX000"
NO_TABLE: Final = "42P01"
DATA: Final = "22"

_QUOTED: Final = re.compile(r'".*"')

_EXPONENT: Final = re.compile(rb"[0-9][eE][-+]?0*([1-9][0-9]{0,5})")

UNREADABLE: Final = (
    f"its numbers take more than {READABLE_BYTES >> 20} MiB when they are selected; write them with"
    " smaller exponents"
)

T = TypeVar("T")

_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)

_MAKE: Final = """
create table if not exists {table} (
    id text primary key,
    query text not null,
    op text not null,
    revision bigint not null,
    final boolean not null,
    confidence text not null,
    start_ns bigint,
    end_ns bigint,
    record jsonb not null,
    written_at timestamptz not null default now()
)
"""
_INDEX: Final = "create index if not exists {index} on {table} (query, start_ns)"
_FIND: Final = "select to_regclass(%s)"
"""Finds an existing table: users who may write to it may lack the right to create tables."""

_ONE_AT_A_TIME: Final = "select pg_advisory_xact_lock(hashtext('inorder.sinks'))"
"""The lock by which processes take turns: two concurrent `create … if not exists` may fail."""

_TIMEOUT: Final = f"set local statement_timeout = '{STATEMENT_TIMEOUT_S}s'"
"""The limit is set in each transaction, because a pooler may run each in another session."""

_UPSERT: Final = """
insert into {table} as known
    (id, query, op, revision, final, confidence, start_ns, end_ns, record)
select given->>'id', given->>'query', given->>'op', (given->>'revision')::bigint,
    (given->>'final')::boolean, given->>'confidence',
    (given->>'start')::bigint, (given->>'end')::bigint, given
from jsonb_array_elements(%s::jsonb) as given
on conflict (id) do update set
    query = excluded.query, op = excluded.op, revision = excluded.revision,
    final = excluded.final, confidence = excluded.confidence,
    start_ns = excluded.start_ns, end_ns = excluded.end_ns,
    record = excluded.record, written_at = now()
where excluded.revision > known.revision
"""
"""The statement that writes rows, as one JSON array of the original records.

The server unpacks the array. One array per column would cost this process eight times as much.
"""


class PostgresSink:
    """A sink (`sinks.sink`) that writes into a table.

    `conninfo` is a libpq connection string or URL; missing parts come from libpq's own environment
    (PGPASSWORD, PGSSLMODE …). `table` may name its schema, `schema.table`. Raises ValueError if
    either is invalid.
    """

    def __init__(self, conninfo: str, table: str) -> None:
        try:
            self._given = conninfo_to_dict(conninfo)
        # The error repeats the text, which may contain a password.
        except psycopg.ProgrammingError as error:
            raise ValueError(
                "this is not a connection string of PostgreSQL; write"
                " postgresql://USER@HOST:PORT/DATABASE"
            ) from error
        parts = table.split(".")
        if not _TABLE_NAME.fullmatch(table) or max(map(len, parts)) > MAX_NAME_CHARS:
            raise ValueError(
                f"{table!r} is not the name of a table; write letters, digits and _, as in"
                " results or schema.results"
            )
        self._table = table
        index = f"{parts[-1][: MAX_NAME_CHARS - 12]}_query_start"
        self._name = sql.Identifier(*parts)
        names = {"table": self._name, "index": sql.Identifier(index)}
        self._make = sql.SQL(_MAKE).format(**names)
        self._index = sql.SQL(_INDEX).format(**names)
        self._upsert = sql.SQL(_UPSERT).format(**names)
        self._marks = TableMarks(self._name.as_string())
        self._connection: Connection | None = None
        self._closed = False
        self._most_rows = ROWS_PER_STATEMENT  # The rows of one statement.

    @property
    def address(self) -> str:
        """Server and database, without secrets."""
        names = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE"}
        return "/".join(
            str(self._given.get(name) or os.environ.get(variable, ""))
            for name, variable in names.items()
        )

    def write(
        self, results: Sequence[Result], progress: Progress | None = None
    ) -> Sequence[Refused]:
        self._check_open()
        progress = progress or NO_PROGRESS
        if not results and not progress.steps:
            return ()
        refused = [Refused(each, UNREADABLE) for each in results if not _is_readable(each)]
        if refused:
            results = [each for each in results if _is_readable(each)]
        rows = select_newest(results)
        return [
            *refused,
            *self._retry(lambda connection: self._write(connection, rows, results, progress)),
        ]

    def marks(self, reader: Reader) -> Marks:
        self._check_open()
        return self._run_in_transaction(lambda connection: self._marks.read(connection, reader))

    def mark(self, reader: Reader, positions: Mapping[int, int]) -> None:
        self._check_open()
        self._run_in_transaction(lambda found: self._marks.raise_to(found, reader, positions))

    def close(self) -> None:
        self._closed = True
        self._disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise SinkError(f"the sink of table {self._table} is closed")

    def _run_in_transaction(self, step: Callable[[Connection], T]) -> T:
        def run_with_timeout(connection: Connection) -> T:
            with connection.transaction():
                connection.execute(_TIMEOUT)
                return step(connection)

        return self._retry(run_with_timeout)

    def _retry(self, step: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            try:
                return step(self._connect())
            except SinkError:
                self._disconnect()
                raise
            except psycopg.Error as error:
                self._disconnect()
                # A table that was dropped is created again with the next connection.
                if _is_table_error(error) and error.sqlstate != NO_TABLE:
                    raise self._failure(error) from error
                raise

        return retry(attempt, psycopg.Error, self._failure)

    def _failure(self, error: psycopg.Error) -> SinkError:
        what = f"table {self._table}"
        if isinstance(error, MarksMissing):
            return BegunAnew(f"{what}: {error}")
        if _is_table_error(error):
            return SinkUnusable(
                f"{what}: {_message(error)}; grant the user select, insert and update on the table"
                f" and on {NAME}; or, if it is not this sink's table, drop it or choose another"
            )
        return SinkUnavailable(
            f"{what}: PostgreSQL failed after {ATTEMPTS} attempt(s): {_message(error)}; check the"
            " server, the network, and the user and password"
        )

    def _write(
        self,
        connection: Connection,
        rows: Sequence[Result],
        given: Sequence[Result],
        progress: Progress,
    ) -> Sequence[Refused]:
        try:
            if self._most_rows < ROWS_PER_STATEMENT:
                self._write_by_pieces(connection, rows, progress)
            else:
                with connection.transaction():
                    connection.execute(_TIMEOUT)
                    for piece in self._pieces(rows):
                        self._put(connection, piece)
                    self._marks.move(connection, progress)
        except psycopg.Error as error:
            if not _is_content_error(error) and error.sqlstate != INTERNAL:
                raise
        else:
            return ()
        # All given results are tried, because an older revision may count if a newer one is
        # refused.
        refused: list[Refused] = []
        with connection.transaction():
            connection.execute(_TIMEOUT)
            self._write_halves(connection, sorted(given, key=lambda each: each.id), refused)
            self._marks.move(connection, progress)
        return refused

    def _write_by_pieces(
        self, connection: Connection, rows: Sequence[Result], progress: Progress
    ) -> None:
        """Write each piece in a transaction of its own; the size of pieces may change.

        The last piece moves the marks. The others only require them.
        """
        while True:
            piece = next(iter(self._pieces(rows)), ())
            rows = rows[len(piece) :]
            with connection.transaction():
                connection.execute(_TIMEOUT)
                if piece:
                    self._put(connection, piece)
                self._marks.move(connection, progress.without_moves() if rows else progress)
            if not rows:
                return

    def _write_halves(
        self, connection: Connection, given: Sequence[Result], refused: list[Refused]
    ) -> None:
        try:
            with connection.transaction():
                for piece in self._pieces(select_newest(given)):
                    self._put(connection, piece)
        except psycopg.Error as error:
            is_internal = error.sqlstate == INTERNAL
            if not _is_content_error(error) and not is_internal:
                raise
            if len(given) == 1:
                if is_internal:
                    self._check_row_is_cause(connection, given[0], error)
                refused.append(Refused(given[0], _message(error), _cause(error)))
                return
            half = len(given) // 2
            self._write_halves(connection, given[:half], refused)
            self._write_halves(connection, given[half:], refused)

    def _check_row_is_cause(
        self, connection: Connection, row: Result, error: psycopg.Error
    ) -> None:
        if len(row.record) < LARGE_BYTES:
            raise error
        with connection.transaction():
            self._put(connection, ())

    def _put(self, connection: Connection, rows: Sequence[Result]) -> None:
        records = b",".join(each.record for each in rows)
        began_s = time.monotonic()
        try:
            connection.execute(self._upsert, [f"[{records.decode()}]"])
        except psycopg.Error as error:
            if error.sqlstate == CANCELLED:
                self._most_rows = max(1, min(self._most_rows, len(rows)) // 2)
            raise
        if (
            time.monotonic() - began_s < QUICK * STATEMENT_TIMEOUT_S
            and len(rows) >= self._most_rows
        ):
            self._most_rows = min(ROWS_PER_STATEMENT, 2 * self._most_rows)

    def _pieces(self, rows: Sequence[Result]) -> Iterable[Sequence[Result]]:
        return split_results(rows, self._most_rows, BYTES_PER_STATEMENT)

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = psycopg.connect(
                **self._settings(), autocommit=True, prepare_threshold=None
            )
            self._create_tables(self._connection)
        return self._connection

    def _create_tables(self, connection: Connection) -> None:
        with connection.transaction():
            connection.execute(_TIMEOUT)
            connection.execute(_ONE_AT_A_TIME)
            found = connection.execute(_FIND, [self._name.as_string()]).fetchone()
            if found == (None,):
                connection.execute(self._make)
                connection.execute(self._index)
            self._marks.open(connection)

    def _settings(self) -> dict[str, Any]:
        ours = {
            "connect_timeout": CONNECT_TIMEOUT_S,
            "application_name": "inorder-sink",
            "tcp_user_timeout": int(STATEMENT_TIMEOUT_S * 1000),
        }
        return {**ours, **self._given, "client_encoding": "UTF8"}

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def _is_readable(row: Result) -> bool:
    """Return whether readers can select the row.

    Exponents inside text are counted too, so the result can be False for a readable row.
    """
    if len(row.record) <= UNSUSPECTED_BYTES:
        return True
    added = sum(int(exponent) for exponent in _EXPONENT.findall(row.record))
    return len(row.record) + added <= READABLE_BYTES


def _is_content_error(error: psycopg.Error) -> bool:
    """Return whether the row's content caused the error.

    Errors that psycopg itself detects have no SQLSTATE.
    """
    state = error.sqlstate
    return isinstance(error, psycopg.DataError) if state is None else state.startswith(CONTENT)


def _is_table_error(error: psycopg.Error) -> bool:
    state = error.sqlstate
    return isinstance(error, psycopg.ProgrammingError) if state is None else state.startswith(PLACE)


def _cause(error: psycopg.Error) -> str:
    """Return the name of the constraint or column that refused a row, or the SQLSTATE."""
    found = error.diag.constraint_name or error.diag.column_name or error.sqlstate
    return "" if error.sqlstate == INTERNAL else found or ""


def _message(error: psycopg.Error) -> str:
    """Return the server's message in one line, without values from the row.

    Values appear in the details, which are left out, and in quotes in a data exception's message.
    """
    text = " ".join((error.diag.message_primary or str(error)).split())
    return _QUOTED.sub('"…"', text) if (error.sqlstate or "").startswith(DATA) else text
