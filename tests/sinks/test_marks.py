"""Examples, in every kind of sink: a store that lost results that the group has read is noticed.

It is emptied, replaced by an empty one or restored from a backup, while the sink is stopped or in
mid-flow. The sink refuses it, and reads again with `--refill`. The ids in the store are counted.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest
import redis

from infra.postgres import PostgresServer
from infra.redis import RedisServer
from sinks.files import Form
from sinks.marks import Bookmarks, WhenBehind
from sinks.postgres import PostgresSink
from sinks.redis import keys_of
from sinks.sink import BegunAnew, Reader, SinkUnusable
from tests.end_to_end.worker import REFUSED
from tests.services import SharedKafka
from tests.sinks.kinds import KINDS, Place, file_place, places_of, postgres_place, redis_place
from tests.sinks.results import MemorySink, result
from tests.sinks.sink_process import SinkProcess, served
from tests.sinks.topic import ResultsProducer, group_has_read
from tests.waiting import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.postgres]

READER = Reader("group", "results")
OTHER = Reader("other/group", "results")

stores = pytest.mark.parametrize("kind", KINDS)


def short_name() -> str:
    """The name of a table has at most 63 characters."""
    return f"marks_{uuid.uuid4().hex[:12]}"


class Store:
    """A place for one kind of sink, which can be emptied, copied and put back."""

    def __init__(self, kind: str, request: pytest.FixtureRequest, name: str, folder: Path) -> None:
        self._kind, self._folder, self._backup = kind, folder / "out", folder / "backup"
        self._name = self._table = name
        if kind == "redis":
            self._server: RedisServer = request.getfixturevalue("redis_server")
            self.place: Place = redis_place(self._server, name)
        elif kind == "postgres":
            self._postgres: PostgresServer = request.getfixturevalue("postgres_server")
            self.place = postgres_place(self._postgres, self._table)
        else:
            self.place = file_place(self._folder, Form(kind), roll_bytes=1)

    def empty(self) -> None:
        """Drop the table, flush the database or delete the folder."""
        if self._kind == "redis":
            with redis.Redis.from_url(self._server.url) as client:
                client.flushall()
        elif self._kind == "postgres":
            self._run(f"drop table {self._table}")
        else:
            shutil.rmtree(self._folder)

    def forget_marks(self) -> None:
        """Leave the results as an older version would have."""
        if self._kind == "redis":
            with redis.Redis.from_url(self._server.url) as client:
                client.delete(keys_of(self._name).marks)
        elif self._kind == "postgres":
            self._run(f"delete from inorder_sink_mark where target = '{self._table}'")
        else:
            for path in self._folder.glob("_marks-*"):
                path.unlink()

    def back_up(self) -> None:
        if self._kind == "redis":
            with redis.Redis.from_url(self._server.url) as client:
                for key in client.scan_iter():
                    client.copy(key, b"backup of " + key, replace=True)
        elif self._kind == "postgres":
            self._run(
                f"create table backup_{self._table} as table {self._table}",
                f"create table marks_{self._table} as table inorder_sink_mark",
            )
        else:
            shutil.copytree(self._folder, self._backup)

    def restore(self) -> None:
        if self._kind == "redis":
            with redis.Redis.from_url(self._server.url) as client:
                for key in client.keys(b"backup of *"):
                    client.rename(key, key.removeprefix(b"backup of "))
        elif self._kind == "postgres":
            mark = f"target = '{self._table}'"
            self._run(
                f"delete from {self._table}",
                f"insert into {self._table} table backup_{self._table}",
                f"delete from inorder_sink_mark where {mark}",
                f"insert into inorder_sink_mark select * from marks_{self._table} where {mark}",
            )
        else:
            shutil.rmtree(self._folder)
            shutil.copytree(self._backup, self._folder)

    def _run(self, *statements: str) -> None:
        with psycopg.connect(self._postgres.url) as connection:
            for each in statements:
                connection.execute(each)


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(kind, request, short_name(), tmp_path)


def write(place: Place, *offsets: int, committed: int = 0, reader: Reader = READER) -> Bookmarks:
    """A sink that is opened for it writes results of these offsets, one a batch."""
    sink = place.opened()
    marks = Bookmarks(sink, reader)
    assert marks.compare({0: committed}) == {}
    for offset in offsets:
        progress = marks.progress({0: offset + 1})
        sink.write([result(f"r{offset}", 0)], progress)
        marks.moved(progress)
    sink.close()
    return marks


def compared(place: Place, committed: int, when: WhenBehind = WhenBehind.REFUSE) -> dict[int, int]:
    sink = place.opened()
    try:
        return Bookmarks(sink, READER, when).compare({0: committed})
    finally:
        sink.close()


@stores
def test_marks_last_and_belong_to_their_reader(store: Store) -> None:
    write(store.place, 0, 1, 2)
    write(store.place, 7, reader=OTHER)
    for committed in (0, 2, 3):
        assert compared(store.place, committed) == {}
    with pytest.raises(SinkUnusable, match="partition 0 reaches offset 3 and not 4"):
        compared(store.place, 4)


@stores
def test_an_emptied_store_is_refused_until_it_is_refilled_or_adopted(store: Store) -> None:
    write(store.place, 0, 1)
    store.empty()
    with pytest.raises(SinkUnusable, match="lacks results .* --refill .* --adopt"):
        compared(store.place, 2)
    assert compared(store.place, 2, WhenBehind.REFILL) == {0: 0}
    with pytest.raises(SinkUnusable):  # Until results have come, it stays behind.
        compared(store.place, 2)
    assert compared(store.place, 2, WhenBehind.ADOPT) == {}
    assert compared(store.place, 2) == {}


@stores
def test_a_store_that_is_emptied_in_mid_flow_takes_no_batch(store: Store) -> None:
    sink = store.place.opened()
    marks = Bookmarks(sink, READER)
    marks.compare({0: 0})
    sink.write([result("a", 0)], progress := marks.progress({0: 1}))
    marks.moved(progress)
    store.empty()
    for _ in range(2):
        with pytest.raises(BegunAnew):
            sink.write([result("b", 0)], marks.progress({0: 2}))
    with pytest.raises(SinkUnusable, match="partition 0 reaches offset 0 and not 1"):
        marks.compare({0: 1})
    sink.close()
    # An empty folder has no file to read.
    assert not store.place.current()


@stores
def test_a_restored_backup_is_read_again_from_its_mark(store: Store) -> None:
    write(store.place, 0, 1)
    store.back_up()
    write(store.place, 2, 3, committed=2)
    store.restore()
    with pytest.raises(SinkUnusable, match="partition 0 reaches offset 2 and not 4"):
        compared(store.place, 4)
    assert compared(store.place, 4, WhenBehind.REFILL) == {0: 2}


@stores
def test_a_store_of_an_older_version_is_adopted_once(store: Store) -> None:
    write(store.place, 0, 1)
    store.forget_marks()
    assert compared(store.place, 2) == {}
    assert compared(store.place, 2) == {}
    with pytest.raises(SinkUnusable):
        compared(store.place, 3)


def test_an_empty_table_after_truncate_is_another_one(
    postgres_server: PostgresServer,
) -> None:
    table = short_name()
    place = postgres_place(postgres_server, table)
    write(place, 0, 1)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"vacuum full {table}")
        assert compared(place, 2) == {}
        connection.execute(f"truncate {table}")
    with pytest.raises(SinkUnusable, match="reaches offset 0 and not 2"):
        compared(place, 2)


def test_a_user_who_may_not_make_the_table_of_marks_is_told_what_to_run(
    postgres_server: PostgresServer,
) -> None:
    name = short_name()
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"create schema {name}")
    write(postgres_place(postgres_server, f"{name}.t"), 0)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"drop table {name}.inorder_sink_mark")
        connection.execute(f"create role {name} login")
        connection.execute(f"grant usage on schema {name} to {name}")
        connection.execute(f"grant select, insert, update on {name}.t to {name}")
    url = postgres_server.url.replace("postgres@", f"{name}@")
    sink = PostgresSink(url, f"{name}.t")
    with pytest.raises(SinkUnusable, match=r"let the schema's owner run: create table .*; grant"):
        sink.marks(READER)
    sink.close()


def test_partitions_are_compared_one_by_one() -> None:
    sink = MemorySink()
    sink.positions = {0: 5, 1: 9}
    assert Bookmarks(sink, READER, WhenBehind.REFILL).compare({0: 6, 1: 9, 2: 0, 3: 4}) == {
        0: 5,
        3: 0,
    }


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("stopped", [True, False], ids=["while it is stopped", "in mid-flow"])
@pytest.mark.parametrize("kind", ["redis", "postgres", "files"])
def test_no_id_is_missing_after_a_refill(
    kafka: SharedKafka,
    own_redis: RedisServer,
    postgres_server: PostgresServer,
    tmp_path: Path,
    kind: str,
    stopped: bool,
) -> None:
    topic = short_name()
    kafka.create_topic(topic, partitions=3)
    folder = tmp_path / "out"
    places = places_of(own_redis, postgres_server, topic, folder, Form.JSON_LINES)
    place, options = places[kind]
    empty: dict[str, Callable[[], object]] = {
        "redis": lambda: redis.Redis.from_url(own_redis.url).flushall(),
        "postgres": partial(drop, postgres_server, places["postgres"][1][-1]),
        "files": partial(shutil.rmtree, folder),
    }
    words = (kind, "--brokers", kafka.bootstrap, "--topic", topic, "--group", topic, *options)
    sink = SinkProcess("sink", tmp_path, *words)
    refilling = SinkProcess("refilling", tmp_path, *words, "--refill")
    with ResultsProducer(kafka.bootstrap, topic) as producer:

        def await_read(by: SinkProcess) -> None:
            has_read = partial(group_has_read, kafka.bootstrap, topic, topic)
            wait_until(lambda: has_read(producer.next_offsets), "all to be read", by.metrics)

        with served([sink]):
            producer.results([result(f"r{each}", 0) for each in range(100)])
            await_read(sink)
            if stopped:
                assert sink.process.stop() == 0, sink.log
            empty[kind]()
            producer.results([result(f"r{each}", 0) for each in range(100, 150)])
            if stopped:
                sink.start()
            wait_until(lambda: not sink.process.is_alive(), "its end", lambda: sink.log)
            assert sink.process.stop() == REFUSED, sink.log
        assert "--refill" in sink.log
        assert "Traceback" not in sink.log
        with served([refilling]):
            await_read(refilling)
            assert refilling.process.stop() == 0, refilling.log
    assert set(place.current()) == {f"r{each}" for each in range(150)}


def drop(server: PostgresServer, table: str) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute(f"drop table {table}")
