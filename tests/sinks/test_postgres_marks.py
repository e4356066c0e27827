"""Examples: the table of marks in PostgreSQL, and which tables count as new."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from infra.postgres import PostgresServer
from sinks.postgres import ROWS_PER_STATEMENT, PostgresSink
from sinks.postgres_marks import NAME
from sinks.sink import BegunAnew, MarkStep, Progress, Reader, SinkUnavailable, SinkUnusable
from tests.sinks.results import result
from tests.sinks.test_postgres import NUMBERS, Store

pytestmark = pytest.mark.postgres

READER = Reader("group", "results")


def progress(known: int, next_: int) -> Progress:
    return Progress(READER, {0: MarkStep(known, next_)})


@pytest.fixture
def store(postgres_server: PostgresServer) -> Iterator[Store]:
    """Yield a store with one result and a mark of 10."""
    made = Store(postgres_server.url)
    made.sink.mark(READER, {0: 0})
    made.sink.write([result("a", 0)], progress(0, 10))
    yield made
    made.sink.close()


def mark(store: Store) -> int:
    """Return the mark as another sink reads it."""
    with closing(PostgresSink(store.url, store.table)) as sink:
        return sink.marks(READER).positions[0]


def remake(table: str, fill: str = "insert into copy_{0} table {0}") -> list[str]:
    """Return the statements that replace a table with a copy, or with an empty table if `fill` is
    empty.
    """
    statements = (
        "create table copy_{0} (like {0} including all)",
        fill,
        "drop table {0}",
        "alter table copy_{0} rename to {0}",
    )
    return [each.format(table) for each in statements if each]


@pytest.mark.parametrize("how", ["truncated", "made again", "filled by another", "restored empty"])
@pytest.mark.parametrize("is_open", [True, False])
def test_replaced_table_has_no_marks(store: Store, how: str, is_open: bool) -> None:
    if not is_open:
        store.sink.close()
    match how:
        case "truncated":
            store.run(f"truncate {store.table}")
        case "made again":
            store.run(*remake(store.table, fill=""))
        case "filled by another":
            store.run(*remake(store.table))
        case "restored empty":
            store.run(*remake(store.table, fill=""), *remake(NAME))
    if is_open:
        with pytest.raises(BegunAnew):
            store.sink.write([result("b", 0)], progress(10, 20))
        assert "b" not in store.ids
    assert mark(store) == 0


def test_vacuum_full_keeps_marks(store: Store) -> None:
    with psycopg.connect(store.url, autocommit=True) as connection:
        statement: Any = f"vacuum full {store.table}"
        connection.execute(statement)
    store.sink.write([result("b", 0)], progress(10, 20))
    assert mark(store) == 20


@pytest.mark.parametrize("is_open", [True, False])
def test_copied_tables_keep_marks(store: Store, is_open: bool) -> None:
    if not is_open:
        store.sink.close()
    store.run(*remake(store.table), *remake(NAME))
    if is_open:
        store.sink.write([result("b", 0)], progress(10, 20))
    assert mark(store) == (20 if is_open else 10)
    store.run(*remake(store.table))
    assert mark(store) == 0


def test_restored_dump_keeps_marks(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """PostgreSQL's own programs make and restore the dump."""
    programs = [shutil.which(name) for name in ("pg_dump", "pg_restore")]
    if None in programs:
        pytest.skip("pg_dump and pg_restore not found; install postgresql-client")
    dump, restore = map(str, programs)
    schema, path = f"dumped_{next(NUMBERS)}", str(tmp_path / "dump")
    store = Store(postgres_server.url, f"{schema}.results")
    store.run(f"create schema {schema}")
    with closing(store.sink) as sink:
        sink.mark(READER, {0: 0})
        sink.write([result("a", 0)], progress(0, 10))
    subprocess.run([dump, "-Fc", "-n", schema, "-f", path, "-d", store.url], check=True)
    store.run(f"drop schema {schema} cascade")
    subprocess.run([restore, "--exit-on-error", "-d", store.url, path], check=True)
    assert (store.ids, mark(store)) == (["a"], 10)


def test_marks_belong_to_one_table(store: Store) -> None:
    store.run("create schema if not exists marked")
    for other in (f"other_{store.table}", f"marked.{store.table}"):
        with closing(PostgresSink(store.url, other)) as sink:
            assert sink.marks(READER).positions == {}


def test_missing_permission_has_a_remedy(store: Store) -> None:
    schema = f"own_{store.table}"
    store.run(f"create schema {schema}")
    table = f"{schema}.{store.table}"
    with closing(PostgresSink(store.url, table)) as owner:
        owner.write([result("a", 0)])
    user = f"marker_{store.table}"
    store.run(
        f"drop table {schema}.inorder_sink_mark",
        f"create role {user} login",
        f"grant usage on schema {schema} to {user}",
        f"grant select, insert, update on {table} to {user}",
    )
    url = store.url.replace("postgres@", f"{user}@")
    with closing(PostgresSink(url, table)) as sink:
        with pytest.raises(SinkUnusable, match="let the schema's owner run: ") as refused:
            sink.marks(READER)
        remedy = str(refused.value).partition("let the schema's owner run: ")[2]
        store.run(*remedy.split("; "))
        marks = sink.marks(READER)
        assert (marks.positions, marks.is_older) == ({}, True)


def test_mark_is_never_ahead_of_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.sink._most_rows = 1
    put = Mock(wraps=store.sink._put)
    monkeypatch.setattr(store.sink, "_put", put)
    rows = [result(id_, 0) for id_ in ("b", "c", "d")]
    store.fails("raise 'so it is' using errcode = '53100';", "when (new.id = 'c')")
    with pytest.raises(SinkUnavailable):
        store.sink.write(rows, progress(10, 20))
    assert "c" not in store.ids
    assert mark(store) == 10
    store.run(f"drop trigger fail on {store.table}")
    store.sink.write(rows, progress(10, 20))
    assert store.ids == ["a", "b", "c", "d"]
    assert mark(store) == 20


def test_mark_moves_past_refused_rows(store: Store) -> None:
    bad = result("bad", 0, values={"text": "nul\0"})
    (refused,) = store.sink.write([bad, result("b", 0)], progress(10, 20))
    assert refused.result.id == "bad"
    assert mark(store) == 20


@pytest.mark.parametrize("rows_at_once", [1, ROWS_PER_STATEMENT])
def test_emptied_server_is_noticed(own_postgres: PostgresServer, rows_at_once: int) -> None:
    """No row is written to the emptied server, even if each row is its own transaction."""
    store = Store(own_postgres.url)
    store.sink.mark(READER, {0: 0})
    store.sink.write([result("a", 0)], progress(0, 10))
    own_postgres.stop()
    own_postgres.start()
    store.sink._most_rows = rows_at_once
    with pytest.raises(BegunAnew, match="absent or behind"):
        store.sink.write([result(id_, 0) for id_ in "bcd"], progress(10, 20))
    assert store.ids == []
    marks = store.sink.marks(READER)
    assert (marks.positions, marks.is_older) == ({}, False)
    store.sink.close()
