"""Examples: the table, what it refuses, and what happens when the server goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import orjson
import psycopg
import pytest

import sinks.postgres as kind
from infra.postgres import PostgresServer
from sinks import attempts
from sinks.postgres import PostgresSink
from sinks.result import Result, parse
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


def run_on(server: PostgresServer, *statements: Any) -> None:
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
    assert [(each.result.id, each.result.revision) for each in refused] == [("a", 5), ("nul\0", 0)]
    assert all("NUL" in each.detail or "Unicode" in each.detail for each in refused)
    rows = asked(postgres_server, f"select id, revision from {table} order by id")
    assert rows == [("a", 3), ("b", 0)]


def test_a_constraint_of_the_users_refuses_rows_only(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result("a", 0)])
    run_on(postgres_server, f"alter table {table} add check (query <> 'secret')")
    refused = sink.write([result("b", 0, query="secret"), result("c", 0)])
    assert [each.result.id for each in refused] == ["b"]
    assert "secret" not in refused[0].detail
    assert asked(postgres_server, f"select id from {table} order by id") == [("a",), ("c",)]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        pytest.param({"query": token_hex(3_000)}, "index row size", id="too long for an index"),
        pytest.param({"query": "raises"}, "not this one", id="a trigger"),
    ],
)
def test_what_is_at_fault_by_its_content_is_refused_and_stops_nothing(
    sink: PostgresSink, postgres_server: PostgresServer, table: str, bad: Any, says: str
) -> None:
    sink.write([result("a", 0)])
    run_on(
        postgres_server,
        f"create function refuse_{table}() returns trigger language plpgsql as"
        " $$ begin if new.query = 'raises' then raise 'not this one'; end if; return new; end $$",
        f"create trigger refuse before insert on {table} for each row"
        f" execute function refuse_{table}()",
    )
    refused = sink.write([result("b", 0), result("bad", 0, **bad), result("c", 0)])
    assert [each.result.id for each in refused] == ["bad"]
    assert says in refused[0].detail
    ids = asked(postgres_server, f"select id from {table} order by id")
    assert ids == [("a",), ("b",), ("c",)]


def test_one_bad_row_costs_a_few_statements_not_one_for_each_row(
    sink: PostgresSink, postgres_server: PostgresServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts: list[int] = []
    put = PostgresSink._put

    def counted(self: PostgresSink, connection: Any, rows: Any) -> None:
        puts.append(len(rows))
        put(self, connection, rows)

    monkeypatch.setattr(PostgresSink, "_put", counted)
    rows = [result(f"r{number:03}", 0) for number in range(512)]
    rows[300] = result("r300", 0, values={"text": "nul\0"})
    assert [each.result.id for each in sink.write(rows)] == ["r300"]
    assert len(puts) == 1 + 1 + 2 * 9  # the batch, the batch again, two halves nine times
    assert asked(postgres_server, f"select count(*) from {table}") == [(511,)]


def test_every_row_may_be_at_fault(sink: PostgresSink) -> None:
    rows = [result(f"r{number}", 0, values={"text": "\0"}) for number in range(33)]
    assert {each.result.id for each in sink.write(rows)} == {each.id for each in rows}


def test_the_environment_does_not_choose_the_encoding(
    postgres_server: PostgresServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    sink = PostgresSink(f"{postgres_server.url}?client_encoding=SQL_ASCII", table)
    sink.write([result("a", 0, values={"price": "5 \u20ac"})])
    sink.close()
    monkeypatch.undo()
    found = asked(postgres_server, f"select record->'values'->>'price' from {table}")
    assert found == [("5 \u20ac",)]


@pytest.mark.parametrize(
    ("state", "seen_as"),
    [
        ("08006", SinkUnavailable),  # the connection broke
        ("25006", SinkUnavailable),  # read-only: a standby, before it is promoted
        ("40P01", SinkUnavailable),  # deadlock
        ("53100", SinkUnavailable),  # disk full
        ("53300", SinkUnavailable),  # too many connections
        ("57P01", SinkUnavailable),  # shut down
        ("57014", SinkUnavailable),  # statement timeout
        ("0A000", SinkUnusable),
        ("28P01", SinkUnusable),
        ("42501", SinkUnusable),  # no right
    ],
)
def test_states_that_are_not_the_rows_fault(
    sink: PostgresSink, postgres_server: PostgresServer, table: str, state: str, seen_as: Any
) -> None:
    sink.write([result("a", 0)])
    run_on(
        postgres_server,
        f"create function fail_{table}() returns trigger language plpgsql as"
        f" $$ begin raise 'so it is' using errcode = '{state}'; end $$",
        f"create trigger fail before insert on {table} for each row"
        f" execute function fail_{table}()",
    )
    with pytest.raises(seen_as, match="so it is"):
        sink.write([result("b", 0), result("c", 0)])


def test_many_rows_go_in_pieces(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result(f"r{number}", 0) for number in range(2 * kind.ROWS_PER_STATEMENT + 1)])
    assert asked(postgres_server, f"select count(*) from {table}") == [(2001,)]


def test_a_row_that_the_server_fails_at_each_time_is_refused(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    sink.write([result("a", 0)])
    run_on(
        postgres_server,
        f"create function fail_{table}() returns trigger language plpgsql as"
        " $$ begin raise 'no memory' using errcode = 'XX000'; end $$",
        f"create trigger fail before insert on {table} for each row"
        f" when (new.id = 'huge') execute function fail_{table}()",
    )
    huge = result("huge", 0, values={"a": "x" * 2**20})
    assert [each.result.id for each in sink.write([result("b", 0), huge])] == ["huge"]
    assert asked(postgres_server, f"select id from {table} order by id") == [("a",), ("b",)]


@pytest.mark.long
def test_more_elements_than_the_server_holds_are_refused(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    """It calls them an internal error."""
    huge = result("huge", 0, values={"a": [0] * (2**24 + 2)})
    assert [each.result.id for each in sink.write([result("a", 0), huge])] == ["huge"]
    assert asked(postgres_server, f"select id from {table}") == [("a",)]


def test_what_nobody_could_select_is_refused(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    """A number of nine characters is 16,385 digits to the server."""
    record = result("tiny", 0).record.replace(b'"v":0.0', b'"v":[' + b"1e-16383," * 9_000 + b"0]")
    tiny, small = parse(record), result("small", 0, values={"v": [1e-300] * 1_000})
    assert isinstance(tiny, Result)
    assert [each.result.id for each in sink.write([tiny, small])] == ["tiny"]
    assert len(asked(postgres_server, f"select record from {table}")) == 1


def test_a_statement_has_a_bound_in_bytes(
    sink: PostgresSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[int] = []
    put = sink._put
    monkeypatch.setattr(kind, "BYTES_PER_STATEMENT", 1_000)

    def counted(connection: Any, rows: Any) -> None:
        statements.append(len(rows))
        put(connection, rows)

    monkeypatch.setattr(sink, "_put", counted)
    sink.write([result(f"r{number}", 0, values={"v": "x" * 400}) for number in range(6)])
    assert statements == [1] * 6


def test_a_table_of_another_shape_is_told(
    sink: PostgresSink, postgres_server: PostgresServer, table: str
) -> None:
    run_on(postgres_server, f"create table {table} (id text primary key)")
    with pytest.raises(SinkUnusable, match="choose another"):
        sink.write([result()])


def test_a_user_who_may_only_write_needs_no_right_to_make_tables(
    postgres_server: PostgresServer, table: str
) -> None:
    sink = PostgresSink(postgres_server.url, table)
    sink.write([result("a", 0)])
    sink.close()
    run_on(
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
    run_on(postgres_server, "create schema if not exists shop")
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
    run_on(
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
