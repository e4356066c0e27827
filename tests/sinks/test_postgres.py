"""Examples: the table, the rows that it refuses, and failures of the server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

import sinks.postgres as kind
from infra.postgres import PostgresServer
from sinks.postgres import PostgresSink
from sinks.result import Result, parse
from sinks.sink import Refused, SinkError, SinkUnavailable, SinkUnusable
from tests.sinks.results import fields, result

pytestmark = pytest.mark.postgres

NUMBERS = itertools.count()


@dataclass
class Store:
    """A test's table, and a sink for it that connects at its first write."""

    url: str
    table: str = field(default_factory=lambda: f"examples_{next(NUMBERS)}")

    def __post_init__(self) -> None:
        self.sink = PostgresSink(self.url, self.table)

    def write(self, *results: Result) -> Sequence[Refused]:
        return self.sink.write(results)

    def refused(self, *results: Result) -> list[str]:
        """Return the ids of the refused results."""
        return [each.result.id for each in self.write(*results)]

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        """Return the columns of all rows, by id."""
        query: Any = f"select {columns} from {self.table} order by id"
        with psycopg.connect(self.url) as connection:
            return connection.execute(query).fetchall()

    @property
    def ids(self) -> list[str]:
        return [id_ for (id_,) in self.rows("id")]

    def run(self, *statements: Any) -> None:
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement)

    def fails(self, body: str, when: str = "") -> None:
        """Make each insert of a row run this code first, from now on."""
        own = f"fail_{self.table}"
        self.run(
            f"create function {own}() returns trigger language plpgsql as"
            f" $$ begin {body} return new; end $$",
            f"create trigger fail before insert on {self.table} for each row {when}"
            f" execute function {own}()",
        )


@pytest.fixture
def store(postgres_server: PostgresServer) -> Iterator[Store]:
    made = Store(postgres_server.url)
    yield made
    made.sink.close()


def test_row_has_the_latest_record(store: Store) -> None:
    values = {"ü": [1.5, None, "'\\\"{}"], "big": 2**63}
    store.write(result("a", 0), result("a", 2, values=values), result("a", 1), result("b", 0))
    store.write(result("a", 1), result("b", 1, "retract", start=None, end=None))
    rows = store.rows("id, op, revision, final, start_ns, end_ns, record")
    one = fields("a", 2, values=values)
    assert rows[0] == ("a", "update", 2, False, one["start"], one["end"], one)
    assert rows[1][:6] == ("b", "retract", 1, False, None, None)


def test_unstorable_rows_are_refused(store: Store) -> None:
    refused = store.write(
        result("nul\0", 0),
        result("a", 5, values={"text": "nul\0"}),
        result("a", 3),
        result("b", 0),
    )
    assert [(each.result.id, each.result.revision) for each in refused] == [("a", 5), ("nul\0", 0)]
    assert all("NUL" in each.detail or "Unicode" in each.detail for each in refused)
    assert store.rows("id, revision") == [("a", 3), ("b", 0)]


def test_constraint_refuses_only_its_rows(store: Store) -> None:
    store.write(result("a", 0))
    store.run(f"alter table {store.table} add check (query <> 'secret')")
    (refused,) = store.write(result("b", 0, query="secret"), result("c", 0))
    assert refused.result.id == "b"
    assert "secret" not in refused.detail
    assert store.ids == ["a", "c"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        pytest.param({"query": token_hex(3_000)}, "index row size", id="too long for an index"),
        pytest.param({"query": "raises"}, "not this one", id="a trigger"),
    ],
)
def test_bad_content_is_refused(store: Store, bad: Any, says: str) -> None:
    store.write(result("a", 0))
    store.fails("if new.query = 'raises' then raise 'not this one'; end if;")
    (refused,) = store.write(result("b", 0), result("bad", 0, **bad), result("c", 0))
    assert refused.result.id == "bad"
    assert says in refused.detail
    assert store.ids == ["a", "b", "c"]


@pytest.fixture
def put(store: Store, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Watch the method that writes rows; each call is one statement."""
    watched = Mock(wraps=store.sink._put)
    monkeypatch.setattr(store.sink, "_put", watched)
    return watched


def test_bad_row_costs_few_statements(store: Store, put: Mock) -> None:
    rows = [result(f"r{number:03}", 0) for number in range(512)]
    rows[300] = result("r300", 0, values={"text": "nul\0"})
    assert store.refused(*rows) == ["r300"]
    assert put.call_count == 1 + 1 + 2 * 9  # The batch runs twice, then two halves run nine times.
    assert len(store.ids) == 511


def test_all_rows_can_be_refused(store: Store) -> None:
    rows = [result(f"r{number}", 0, values={"text": "\0"}) for number in range(33)]
    assert {*store.refused(*rows)} == {each.id for each in rows}


def test_sink_overrides_client_encoding(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with closing(PostgresSink(f"{store.url}?client_encoding=SQL_ASCII", store.table)) as sink:
        sink.write([result("a", 0, values={"price": "5 \u20ac"})])
    monkeypatch.undo()
    assert store.rows("record->'values'->>'price'") == [("5 \u20ac",)]


@pytest.mark.parametrize(
    ("state", "seen_as"),
    [
        ("08006", SinkUnavailable),  # the connection broke
        ("25006", SinkUnavailable),  # A standby is read-only before it is promoted.
        ("40P01", SinkUnavailable),  # deadlock
        ("53100", SinkUnavailable),  # disk full
        ("53300", SinkUnavailable),  # too many connections
        ("57P01", SinkUnavailable),  # shut down
        ("57014", SinkUnavailable),  # statement timeout
        ("0A000", SinkUnusable),
        ("28P01", SinkUnusable),
        ("42501", SinkUnusable),  # no permission
    ],
)
def test_server_error_refuses_no_row(store: Store, state: str, seen_as: Any) -> None:
    store.write(result("a", 0))
    store.fails(f"raise 'so it is' using errcode = '{state}';")
    with pytest.raises(seen_as, match="so it is"):
        store.write(result("b", 0), result("c", 0))


def test_many_rows_are_all_written(store: Store) -> None:
    store.write(*(result(f"r{number}", 0) for number in range(2 * kind.ROWS_PER_STATEMENT + 1)))
    assert len(store.ids) == 2001


def test_failing_row_is_refused(store: Store) -> None:
    store.write(result("a", 0))
    store.fails("raise 'no memory' using errcode = 'XX000';", "when (new.id = 'huge')")
    huge = result("huge", 0, values={"a": "x" * 2**20})
    assert store.refused(result("b", 0), huge) == ["huge"]
    assert store.ids == ["a", "b"]


@pytest.mark.long
def test_huge_array_is_refused(store: Store) -> None:
    """PostgreSQL reports such an array as an internal error."""
    huge = result("huge", 0, values={"a": [0] * (2**24 + 2)})
    assert store.refused(result("a", 0), huge) == ["huge"]
    assert store.ids == ["a"]


def test_unselectable_row_is_refused(store: Store) -> None:
    """The server would print a number of nine characters with 16,385 digits."""
    record = result("tiny", 0).record.replace(b'"v":0.0', b'"v":[' + b"1e-16383," * 9_000 + b"0]")
    tiny, small = parse(record), result("small", 0, values={"v": [1e-300] * 1_000})
    assert isinstance(tiny, Result)
    assert store.refused(tiny, small) == ["tiny"]
    assert len(store.rows("record")) == 1


def test_statement_size_is_bounded(
    store: Store, put: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "BYTES_PER_STATEMENT", 1_000)
    store.write(*(result(f"r{number}", 0, values={"v": "x" * 400}) for number in range(6)))
    assert [len(call.args[1]) for call in put.call_args_list] == [1] * 6


def test_unfit_table_is_refused(store: Store) -> None:
    store.run(f"create table {store.table} (id text primary key)")
    with pytest.raises(SinkUnusable, match="choose another"):
        store.write(result())


def test_sink_needs_no_right_to_create(store: Store) -> None:
    """If the tables exist, a role that can select, insert and update is enough."""
    table = store.table
    store.write(result("a", 0))
    store.run(
        f"create role writer_{table} login",
        f"grant select, insert, update on {table}, inorder_sink_mark to writer_{table}",
    )
    url = store.url.replace("postgres@", f"writer_{table}@")
    with closing(PostgresSink(url, table)) as sink:
        sink.write([result("a", 1)])
    with (
        closing(PostgresSink(url, f"other_{table}")) as sink,
        pytest.raises(SinkUnusable, match="permission denied"),
    ):
        sink.write([result("a", 1)])
    assert store.rows("revision") == [(1,)]


def test_table_can_be_in_a_schema(store: Store) -> None:
    store.run("create schema if not exists shop")
    shop = Store(store.url, "shop.results")
    shop.write(result("a", 0))
    shop.sink.close()
    assert shop.ids == ["a"]


@pytest.mark.parametrize("table", ["", "a b", "a;drop table b", "a.b.c", "1a", "ä", "a" * 64])
def test_bad_table_name_is_refused(table: str) -> None:
    with pytest.raises(ValueError, match="name of a table"):
        PostgresSink("postgresql://localhost/x", table)


def test_refusal_hides_the_secret() -> None:
    with pytest.raises(ValueError, match="write postgresql://") as refused:
        PostgresSink("postgresql://u:hidden@h:1/x?nothing=1", "results")
    assert "hidden" not in str(refused.value)


def test_ended_session_is_replaced(store: Store) -> None:
    store.write(result("a", 0))
    store.run(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'inorder-sink'"
    )
    store.write(result("a", 1))
    assert store.rows("revision") == [(1,)]


def test_restarted_server_is_used(
    own_postgres: PostgresServer,
) -> None:
    store = Store(own_postgres.url, "results")
    store.write(result("a", 0))
    own_postgres.kill()
    with pytest.raises(SinkUnavailable, match="after 3 attempt"):
        store.write(result("a", 1))
    own_postgres.start()
    store.write(result("a", 1))
    assert store.rows("id, revision") == [("a", 1)]
    store.sink.close()
    store.sink.close()
    with pytest.raises(SinkError, match="closed"):
        store.write(result())


def cancel_after(timeout_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel statements after this time."""
    monkeypatch.setattr(kind, "STATEMENT_TIMEOUT_S", timeout_s)
    monkeypatch.setattr(kind, "_TIMEOUT", f"set local statement_timeout = '{timeout_s}s'")


def test_slow_table_gets_small_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    cancel_after(0.5, monkeypatch)
    store.write(result("before", 0))
    store.fails("perform pg_sleep(0.02);")
    rows = [result(f"r{number:03}", 0) for number in range(60)]
    store.write(*rows)
    assert store.ids == ["before", *(row.id for row in rows)]
    assert store.sink._most_rows < 60
    store.run(f"drop trigger fail on {store.table}")
    for revision in range(1, 4):
        store.write(*(result(row.id, revision) for row in rows))
    assert store.sink._most_rows > 60


def test_cancelled_batch_keeps_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    cancel_after(0.3, monkeypatch)
    store.write(result("before", 0))
    # One row takes too long, so a batch that contains it is never written.
    store.fails("if new.id = 'r050' then perform pg_sleep(60); end if;")
    rows = [result(f"r{number:03}", 0) for number in range(100)]
    for _ in range(4):
        with pytest.raises(SinkUnavailable, match="statement timeout"):
            store.write(*rows)
    assert set(store.ids) == {"before", *(row.id for row in rows[:50])}


def test_refusal_names_its_cause(store: Store) -> None:
    store.write(result("before", 0))
    store.run(
        f"alter table {store.table} add constraint short check (length(id) < 9)",
        f"alter table {store.table} add column added text",
        f"alter table {store.table} alter column added set default 'x'",
    )
    causes = {each.cause for each in store.write(result("far_too_long", 0))}
    assert causes == {"short"}
    store.run(
        f"alter table {store.table} alter column added drop default",
        f"update {store.table} set added = 'x'",
        f"alter table {store.table} alter column added set not null",
    )
    assert {each.cause for each in store.write(result("a", 0))} == {"added"}
    store.fails("raise 'closed on Sundays';")
    assert {each.cause for each in store.write(result("b", 0))} == {"P0001"}
    (nul,) = store.write(result("c", 0, values={"text": "\0"}))
    assert nul.cause == "22P05"
