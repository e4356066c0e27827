"""Examples: the table, what it refuses, and what happens when the server goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson
import psycopg
import pytest

import sinks.postgres as kind
from infra.postgres import PostgresServer
from sinks import attempts
from sinks.postgres import PostgresSink
from sinks.sink import SinkError, SinkUnavailable, SinkUnusable
from tests.sinks.results import fields, result

pytestmark = pytest.mark.postgres

NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.001)


@pytest.fixture
def table() -> str:
    return f"examples_{next(NUMBERS)}"


@pytest.fixture
def sink(postgres_server: PostgresServer, table: str) -> Iterator[PostgresSink]:
    opened = PostgresSink(postgres_server.url, table)
    yield opened
    opened.close()


def asked(server: PostgresServer, query: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.url) as connection:
        return connection.execute(query).fetchall()


def told(server: PostgresServer, *statements: Any) -> None:
    with psycopg.connect(server.url) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_row_holds_the_latest(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result("a", 0), result("a", 2), result("a", 1), result("b", 0)])
    sink.write([result("a", 1), result("b", 1, "retract", start=None, end=None)])
    rows = asked(
        postgres_server,
        f"select id, op, revision, final, start_ns, end_ns, record from {table} order by id",
    )
    one = fields("a", 2)
    assert rows[0] == ("a", "update", 2, False, one["start"], one["end"], one)
    assert rows[1][:6] == ("b", "retract", 1, False, None, None)


def test_a_retract_is_remembered(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result("a", 1, "retract")])
    sink.write([result("a", 0)])
    assert asked(postgres_server, f"select op, revision from {table}") == [("retract", 1)]
    sink.write([result("a", 2, "emit")])
    assert asked(postgres_server, f"select op, revision from {table}") == [("emit", 2)]


def test_what_the_server_can_never_hold_comes_back_and_the_rest_is_written(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    bad = [
        result("nul\0", 0),
        result("a", 5, values={"text": "nul\0"}),
        result("a", 3),
        result("b", 0),
    ]
    refused = sink.write(bad)
    assert [(each.result.id, each.result.revision) for each in refused] == [("nul\0", 0), ("a", 5)]
    assert all("NUL" in each.detail or "Unicode" in each.detail for each in refused)
    rows = asked(postgres_server, f"select id, revision from {table} order by id")
    assert rows == [("a", 3), ("b", 0)]


def test_a_constraint_of_the_users_refuses_rows_only(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result("a", 0)])
    told(postgres_server, f"alter table {table} add check (query <> 'secret')")
    refused = sink.write([result("b", 0, query="secret"), result("c", 0)])
    assert [each.result.id for each in refused] == ["b"]
    assert "secret" not in refused[0].detail
    assert asked(postgres_server, f"select id from {table} order by id") == [("a",), ("c",)]


def test_many_rows_go_in_pieces(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result(f"r{number}", 0) for number in range(2 * kind.ROWS_PER_STATEMENT + 1)])
    assert asked(postgres_server, f"select count(*) from {table}") == [(2001,)]


def test_a_table_of_another_shape_is_told(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    told(postgres_server, f"create table {table} (id text primary key)")
    with pytest.raises(SinkUnusable, match="choose another"):
        sink.write([result()])


def test_a_user_who_may_only_write_needs_no_right_to_make_tables(
    postgres_server: PostgresServer, table: str
) -> None:
    sink = PostgresSink(postgres_server.url, table)
    sink.write([result("a", 0)])
    sink.close()
    told(
        postgres_server,
        f"create role writer_{table} login",
        f"grant select, insert, update on {table} to writer_{table}",
    )
    url = postgres_server.url.replace("postgres@", f"writer_{table}@")
    sink = PostgresSink(url, table)
    sink.write([result("a", 1)])
    sink.close()
    sink = PostgresSink(url, f"other_{table}")
    with pytest.raises(SinkUnusable, match="permission denied"):
        sink.write([result("a", 1)])
    sink.close()
    assert asked(postgres_server, f"select revision from {table}") == [(1,)]


def test_a_schema_may_be_named(postgres_server: PostgresServer) -> None:
    told(postgres_server, "create schema if not exists shop")
    sink = PostgresSink(postgres_server.url, "shop.results")
    sink.write([result("a", 0)])
    sink.close()
    assert asked(postgres_server, "select id from shop.results") == [("a",)]


@pytest.mark.parametrize("table", ["", "a b", "a;drop table b", "a.b.c", "1a", "ä", "a" * 64])
def test_a_table_that_cannot_be_is_refused(table: str) -> None:
    with pytest.raises(ValueError, match="name of a table"):
        PostgresSink("postgresql://localhost/x", table)


def test_a_bad_connection_string_is_refused_without_its_secret() -> None:
    with pytest.raises(ValueError, match="write postgresql://") as refused:
        PostgresSink("postgresql://u:hidden@h:1/x?nothing=1", "results")
    assert "hidden" not in str(refused.value)


def test_a_session_that_is_ended_is_not_noticed(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result("a", 0)])
    told(
        postgres_server,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'inorder-sink'",
    )
    sink.write([result("a", 1)])
    assert asked(postgres_server, f"select revision from {table}") == [(1,)]


def test_a_server_that_is_killed_is_unavailable_and_then_gone_on_with(
    own_postgres: PostgresServer,
) -> None:
    sink = PostgresSink(own_postgres.url, "results")
    sink.write([result("a", 0)])
    own_postgres.kill()
    with pytest.raises(SinkUnavailable, match="after 3 attempt"):
        sink.write([result("a", 1)])
    own_postgres.start()
    sink.write([result("a", 1)])
    assert asked(own_postgres, "select id, revision from results") == [("a", 1)]
    sink.close()
    sink.close()
    with pytest.raises(SinkError, match="closed"):
        sink.write([result()])


def test_a_record_comes_back_as_it_was(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    one = result("a", 0, values={"ü": [1.5, None, "'\\\"{}"], "big": 2**63})
    sink.write([one])
    [(found,)] = asked(postgres_server, f"select record from {table}")
    assert found == orjson.loads(one.record)
